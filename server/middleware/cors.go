package middleware

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// preflightSeconds is how long a browser may cache the answer to a CORS preflight.
const preflightSeconds = 600

// CORS lets browser pages of the given origins use the server (Fetch standard). It answers
// preflight requests and lists the response headers that a page may read. A page may send any
// header, including a key in Authorization, but no cookies. Without origins, CORS does nothing.
func CORS(c *contract.Contract, origins []string) func(http.Handler) http.Handler {
	if len(origins) == 0 {
		return func(next http.Handler) http.Handler { return next }
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: c.Methods(),
		AllowedHeaders: []string{"*"},
		ExposedHeaders: append(c.AnswerHeaders(), answer.HeaderRequestID),
		MaxAge:         preflightSeconds,
		// An allowed page of the Internet may also use a server on a loopback address.
		AllowPrivateNetwork: true,
	}).Handler
}

// Origin normalizes an origin to the form that browsers send: "https://host:port", without the
// default port of the scheme. It refuses patterns such as "*", and "null", which several pages
// share.
func Origin(text string) (string, error) {
	wrong := fmt.Errorf("found %q, expected one origin, scheme://host or scheme://host:port, "+
		"such as https://app.example.org", text)
	u, err := url.Parse(strings.ToLower(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Contains(text, "*") ||
		u.Hostname() == "" || u.Scheme+"://"+u.Host != strings.ToLower(text) {
		return "", wrong
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, ":"+usual), nil
}

// isNamed reports whether the list contains origin. All entries must be normalized by Origin.
func isNamed(origin string, origins []string) bool {
	return slices.Contains(origins, strings.ToLower(origin))
}
