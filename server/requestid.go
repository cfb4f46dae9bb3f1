package server

import (
	"context"
	"net/http"

	"github.com/google/uuid"
)

const headerRequestID = "X-Request-Id"

type requestIDKey struct{}

// requestID gives every request an id, the client's own if that is sane, in its context and in the answer.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerRequestID)
		if !isRequestID(id) {
			id = uuid.NewString()
		}
		w.Header().Set(headerRequestID, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// isRequestID reports whether a client's id can stand in headers and logs.
func isRequestID(id string) bool {
	if id == "" || len(id) > requestIDCharsMax {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// requestIDOf gives the id of the request that a context belongs to.
func requestIDOf(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
