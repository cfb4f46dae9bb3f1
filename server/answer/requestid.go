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
