// Package middleware has what every request passes on its way to a handler, one middleware a file:
// a function that gets what it needs handed in, and returns a func(http.Handler) http.Handler. What
// a middleware finds out about a request goes into the request's context; the file that puts it
// there has the function that reads it: CallerOf, Charge, MediaOf.
//
// The server's newRouter says in which order requests meet them. Those that look at the operation
// of a request (Negotiate, BodyKind, BodySize, Validate) come after the router has found it.
package middleware

import "net/http"

// wrap makes a middleware of a function that answers a request, or has next answer it.
func wrap(
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, next) })
	}
}
