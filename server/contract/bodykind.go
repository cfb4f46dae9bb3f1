package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// MediaForm is the media type of HTML forms. libcurl and `curl -d` send this type by default.
const MediaForm = "application/x-www-form-urlencoded"

// CheckBodyKind returns a problem if the operation does not accept the media type or the encoding
// of a request's body, else nil. A body without Content-Type is taken as plain bytes if the
// operation accepts them, else as JSON.
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

// CodingOf returns the Content-Encoding of a request's body in lower case, or "" for identity. If
// the header is repeated, CodingOf returns all its values.
func CodingOf(r *http.Request) string {
	all := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	coding := strings.ToLower(strings.TrimSpace(all))
	if coding == "identity" {
		return ""
	}
	return coding
}

// isCurlForm reports whether `curl -d` sent the body. `curl -d @FILE` removes the newlines of the
// file.
func isCurlForm(r *http.Request, media string) bool {
	return media == MediaForm && strings.HasPrefix(r.UserAgent(), "curl/")
}

func (o *Operation) mediaUnsaid() string {
	if slices.Contains(o.Accepts, MediaOctetStream) {
		return MediaOctetStream
	}
	return o.Accepts[0]
}

// insteadOfForm returns advice for an error message: the curl options for a body that the operation
// accepts.
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

func unsupported(header, found, expected string) *problem.Problem {
	return problem.Field(api.ProblemUnsupportedMediaType, header, found, expected)
}
