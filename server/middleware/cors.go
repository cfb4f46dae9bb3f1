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

// preflightSeconds is how long a browser may cache a preflight's answer.
const preflightSeconds = 600

// CORS lets pages of these origins use the server from a browser (Fetch standard). It answers their
// preflights and lists the headers that they may read. Such a page may send any header, including a
// key in Authorization. It never sends the browser's own credentials, which this server does not
// use. Without origins CORS does nothing.
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
		// An allowed page of the internet may reach a server on loopback.
		AllowPrivateNetwork: true,
	}).Handler
}

// Origin normalizes an origin to the form that browsers send: "https://host:port", without the
// scheme's default port. It refuses patterns and origins that several pages share, such as "*" and
// "null".
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

// isNamed reports whether origin is in origins, which are normalized by Origin.
func isNamed(origin string, origins []string) bool {
	return slices.Contains(origins, strings.ToLower(origin))
}
