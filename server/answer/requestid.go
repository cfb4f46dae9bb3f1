// Package answer is how an answer leaves: as a problem document, a stream of events or a file. It
// also has the note of what was answered that the access log needs, and the request's id, which
// answers and log entries share.
package answer

import "context"

// HeaderRequestID names the header that carries a request's id, of the request and of its answer.
const HeaderRequestID = "X-Request-Id"

type requestIDKey struct{}

// WithRequestID gives the context of a request whose id is known.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID gives the id of the request that a context belongs to; "" if it belongs to none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
