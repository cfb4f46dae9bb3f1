package middleware

import (
	"net/http"
	"strconv"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// BodySize limits the size of request bodies. It checks Content-Length before reading. It counts a
// body without Content-Length while the body arrives. A streamed body may have streamBytesMax
// bytes.
func BodySize(
	c *contract.Contract, streamBytesMax int64, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if contract.HasBody(r) {
			most := bodyMost(c.Operation(r), r, streamBytesMax)
			if r.ContentLength > most {
				problems.Answer(w, r, problem.Field(api.ProblemBodyTooLarge, "Content-Length",
					strconv.FormatInt(r.ContentLength, 10), "at most "+strconv.FormatInt(most, 10)))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, most)
		}
		next.ServeHTTP(w, r)
	})
}

func bodyMost(op *contract.Operation, r *http.Request, streamBytesMax int64) int64 {
	switch {
	case op.Raw, op.Records && contract.IsJSONBody(r): // a JSON body may contain log records
		return limits.LogBodyBytesMax
	case contract.IsJSONBody(r):
		return limits.JSONBodyBytesMax
	case op.TakesFile():
		return limits.ImportBodyBytesMax
	}
	return streamBytesMax
}
