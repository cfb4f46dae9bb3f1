package middleware

import (
	"context"
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

type formKey struct{}

type answerForm struct {
	media   string
	head    bool // the method is HEAD
	request *http.Request
}

// Negotiate chooses the media type of the answer by the header Accept, among the types that the
// contract lists.
func Negotiate(c *contract.Contract, problems *answer.Problems) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		offers := c.Operation(r).Offers
		if len(offers) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Accept")
		accept := strings.Join(r.Header.Values("Accept"), ",")
		media := contract.ChooseMedia(accept, offers)
		if media == "" {
			problems.Answer(w, r, problem.Field(api.ProblemNotAcceptable, "Accept",
				problem.Quoted(accept), problem.OneOf(offers)))
			return
		}
		chosen := answerForm{media, r.Method == http.MethodHead, r}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), formKey{}, chosen)))
	})
}

// MediaOf returns the media type that Negotiate has chosen for the answer.
func MediaOf(ctx context.Context) string { return formOf(ctx).media }

// RequestOf returns the HTTP request whose context is ctx, as Negotiate received it.
func RequestOf(ctx context.Context) *http.Request { return formOf(ctx).request }

// HeadOnly reports whether the request's method is HEAD.
func HeadOnly(ctx context.Context) bool { return formOf(ctx).head }

func formOf(ctx context.Context) answerForm {
	form, _ := ctx.Value(formKey{}).(answerForm)
	return form
}
