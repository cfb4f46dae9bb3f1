// Package middleware has what every request passes on its way to a handler, one middleware a file:
// a function that gets what it needs handed in, and returns a func(http.Handler) http.Handler. What
// a middleware finds out about a request goes into the request's context; the file that puts it
// there has the function that reads it: CallerOf, Charge, MediaOf.
//
// The server's newRouter says in which order requests meet them. Those that look at the operation
// of a request (Negotiate, BodyKind, BodySize, Validate) come after the router has found it.
package middleware
