package middleware

import (
	"net/http"

	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

// BodyKind refuses a body whose media type the contract does not list for the operation. A body
// without Content-Type, such as that of `curl -T`, counts as application/octet-stream. BodyKind
// ignores a body if the operation takes none.
func BodyKind(c *contract.Contract, problems *answer.Problems) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		op := c.Operation(r)
		switch {
		case !contract.HasBody(r):
		case len(op.Accepts) == 0:
			defer attendUnread(r.Context())()
		default:
			if p := op.CheckBodyKind(r); p != nil {
				problems.Answer(w, r, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
