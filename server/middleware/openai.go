package middleware

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// OpenAI marks requests to routes in OpenAI's form, so that errors have OpenAI's format. It runs
// before any middleware that may refuse a request.
func OpenAI(c *contract.Contract, routes chi.Routes) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if c.IsOpenAI(routes, r) {
			r = r.WithContext(answer.WithOpenAIForm(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}
