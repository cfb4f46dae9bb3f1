package contract

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// CheckBodyKind holds the headers of a request's body against the media types that the operation
// accepts. It gives nil if they fit.
func (o *Operation) CheckBodyKind(r *http.Request) *problem.Problem {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return problem.Field(api.ProblemUnsupportedMediaType, "Content-Encoding", problem.Quoted(coding), "none")
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = MediaOctetStream
		r.Header.Set("Content-Type", header)
	}
	media, params := MediaTypeOf(header)
	if !slices.Contains(o.Accepts, media) {
		return problem.Field(api.ProblemUnsupportedMediaType, "Content-Type", problem.Quoted(header), problem.OneOf(o.Accepts))
	}
	if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return problem.Field(api.ProblemUnsupportedMediaType, "Content-Type", "the charset "+problem.Quoted(charset), "utf-8 or us-ascii")
	}
	return nil
}
