// Package answer sends answers: problem documents, streams of events, and files. It also records
// what the access log needs, and holds the request's id, which answers and log entries share.
package answer

import "context"

// HeaderRequestID is the header with the request's id, in the request and in its answer.
const HeaderRequestID = "X-Request-Id"

type requestIDKey struct{}

// WithRequestID returns a context with the id of its request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to, or "" if there is none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
