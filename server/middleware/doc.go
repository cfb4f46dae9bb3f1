// Package middleware has the steps that every request passes before its handler, one per file. Each
// is a function that takes its dependencies and returns a func(http.Handler) http.Handler. A
// middleware stores its findings in the request's context; the same file has the function that
// reads them: CallerOf, Charge, MediaOf.
//
// The server's newRouter defines their order. Negotiate, BodyKind, BodySize and Validate look at
// the operation, so they run after the router has found it.
package middleware

import "net/http"

// wrap makes a middleware from a function that either answers a request or calls next.
func wrap(
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, next) })
	}
}
