// Package middleware has the steps that a request passes before its handler, one per file. Each
// step is a function that takes its dependencies and returns a func(http.Handler) http.Handler. A
// step stores its results in the request's context. The file of the step also has the functions
// that read these results, such as CallerOf and MediaOf.
//
// The function newRouter of package server defines the order of the steps. Negotiate, BodyKind,
// BodySize and Validate need the operation, so they run after the router.
package middleware

import "net/http"

// wrap makes a middleware from a function that answers a request or calls next.
func wrap(
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, next) })
	}
}
