package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// MediaForm is what libcurl says of every body unless it is told otherwise, `curl -d` among its
// users, and what forms of pages send.
const MediaForm = "application/x-www-form-urlencoded"

// CheckBodyKind holds the headers of a request's body against the media types that the operation
// accepts; nil if they fit. A body without a Content-Type gets that of plain bytes or, where only
// JSON is accepted, that of JSON.
func (o *Operation) CheckBodyKind(r *http.Request) *problem.Problem {
	coding := CodingOf(r)
	if coding != "" && !slices.Contains(o.Codings, coding) {
		expected := problem.OneOf(append([]string{"none"}, o.Codings...))
		return unsupported("Content-Encoding", problem.Quoted(coding), expected)
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = o.mediaUnsaid()
		r.Header.Set("Content-Type", header)
	}
	media, params := MediaTypeOf(header)
	if !slices.Contains(o.Accepts, media) || isCurlForm(r, media) {
		p := unsupported("Content-Type", problem.Quoted(header), problem.OneOf(o.Accepts))
		if media == MediaForm {
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

// CodingOf is the Content-Encoding of a request's body, in small letters; "" for identity.
func CodingOf(r *http.Request) string {
	coding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	if coding == "identity" {
		return ""
	}
	return coding
}

// isCurlForm reports whether a body is what `curl -d` sends, of which curl may have taken the
// newlines.
func isCurlForm(r *http.Request, media string) bool {
	return media == MediaForm && strings.HasPrefix(r.UserAgent(), "curl/")
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
	case slices.Contains(o.Accepts, MediaText):
		media = MediaText
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
