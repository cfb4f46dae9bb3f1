package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// mediaForm is what `curl -d` says of every body, and what forms of pages send.
const mediaForm = "application/x-www-form-urlencoded"

// CheckBodyKind holds the headers of a request's body against the media types that the operation
// accepts; nil if they fit. A body without a Content-Type gets that of plain bytes or, where only
// JSON is accepted, that of JSON.
func (o *Operation) CheckBodyKind(r *http.Request) *problem.Problem {
	coding := r.Header.Get("Content-Encoding")
	if coding != "" && !strings.EqualFold(coding, "identity") {
		return unsupported("Content-Encoding", problem.Quoted(coding), "none")
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = o.mediaUnsaid()
		r.Header.Set("Content-Type", header)
	}
	media, params := MediaTypeOf(header)
	if !slices.Contains(o.Accepts, media) {
		p := unsupported("Content-Type", problem.Quoted(header), problem.OneOf(o.Accepts))
		if media == mediaForm {
			*p.Detail += o.insteadOfForm()
		}
		return p
	}
	charset := strings.ToLower(params["charset"])
	if charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return unsupported(
			"Content-Type",
			"the charset "+problem.Quoted(charset),
			"utf-8 or us-ascii",
		)
	}
	return nil
}

// mediaUnsaid is the media type of a body that comes without one.
func (o *Operation) mediaUnsaid() string {
	if slices.Contains(o.Accepts, MediaOctetStream) {
		return MediaOctetStream
	}
	return o.Accepts[0]
}

// insteadOfForm says how curl sends a body that the operation accepts. Bodies of forms are not
// taken for text: `curl -d @FILE` leaves out the newlines of the file, which nobody would notice.
func (o *Operation) insteadOfForm() string {
	media, send := MediaJSON, "-d 'JSON'"
	switch {
	case slices.Contains(o.Accepts, mediaText):
		media = mediaText
		send = "--data-binary 'TEXT' or --data-binary @FILE; -d drops the newlines of a file"
	case o.TakesFile():
		media, send = MediaTar, "--data-binary @FILE"
	}
	return fmt.Sprintf(". With curl: -H 'Content-Type: %s' %s", media, send)
}

// unsupported says what a header of the body has, and what it may have.
func unsupported(header, found, expected string) *problem.Problem {
	return problem.Field(api.ProblemUnsupportedMediaType, header, found, expected)
}
