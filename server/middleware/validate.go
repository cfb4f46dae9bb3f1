package middleware

import (
	"net/http"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// Validate checks a request's parameters and JSON body against the contract.
func Validate(c *contract.Contract, problems *answer.Problems) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if err := c.Operation(r).Validate(r); err != nil {
			problems.Answer(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
