package middleware

import (
	"net/http"
	"regexp"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/limits"
)

// RequestID puts an id into the context and the answer of every request. It uses the client's id if
// that id is safe for headers and logs, else a new id.
func RequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(answer.HeaderRequestID)
		if !isRequestID(id) {
			id = uuid.NewString()
		}
		w.Header().Set(answer.HeaderRequestID, id)
		next.ServeHTTP(w, r.WithContext(answer.WithRequestID(r.Context(), id)))
	})
}

func isRequestID(id string) bool {
	return len(id) <= limits.RequestIDCharsMax && requestID.MatchString(id)
}

var requestID = regexp.MustCompile(`^[0-9A-Za-z._-]+$`)
