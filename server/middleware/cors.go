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

// preflightSeconds is how long a browser may remember what a preflight was answered.
const preflightSeconds = 600

// CORS lets pages of these origins use the server from a browser, as the Fetch standard has it: it
// answers their preflights and names the headers of answers that they may read. Such a page may
// send any header, a key in Authorization among them. It never gets the browser's own credentials,
// which are none of this server's. Without origins CORS does nothing.
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
		// A page of the internet that somebody has named may reach a server on loopback.
		AllowPrivateNetwork: true,
	}).Handler
}

// Origin brings the origin of a page into the form in which browsers send it, "https://host:port"
// without the port that the scheme has anyway. It takes no pattern, and nothing that several pages
// share: neither "*" nor "null".
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

// isNamed reports whether an origin is one of these, which are in the form of Origin.
func isNamed(origin string, origins []string) bool {
	return slices.Contains(origins, strings.ToLower(origin))
}
