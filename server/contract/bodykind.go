package contract

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// CheckBodyKind holds the headers of a request's body against the media types that the operation
// accepts; nil if they fit. A body without a Content-Type gets that of plain bytes.
func (o *Operation) CheckBodyKind(r *http.Request) *problem.Problem {
	coding := r.Header.Get("Content-Encoding")
	if coding != "" && !strings.EqualFold(coding, "identity") {
		return unsupported("Content-Encoding", problem.Quoted(coding), "none")
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = MediaOctetStream
		r.Header.Set("Content-Type", header)
	}
	media, params := MediaTypeOf(header)
	if !slices.Contains(o.Accepts, media) {
		return unsupported("Content-Type", problem.Quoted(header), problem.OneOf(o.Accepts))
	}
	charset := strings.ToLower(params["charset"])
	if charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return unsupported("Content-Type", "the charset "+problem.Quoted(charset), "utf-8 or us-ascii")
	}
	return nil
}

// unsupported says what a header of the body has, and what it may have.
func unsupported(header, found, expected string) *problem.Problem {
	return problem.Field(api.ProblemUnsupportedMediaType, header, found, expected)
}
