package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/server/page"
	"github.com/lmserve/lmserve/server/routes"
)

// pageFile is an answer with a file of the page, for a request with these headers.
type pageFile struct {
	file                        *page.File
	acceptEncoding, ifNoneMatch *string
}

// send sends the file.
func (f pageFile) send(w http.ResponseWriter) error {
	of := func(header *string) string {
		if header == nil {
			return ""
		}
		return *header
	}
	f.file.Answer(w, of(f.acceptEncoding), of(f.ifNoneMatch))
	return nil
}

// VisitHomeResponse implements routes.HomeResponseObject.
func (f pageFile) VisitHomeResponse(w http.ResponseWriter) error { return f.send(w) }

// VisitPageStyleResponse implements routes.PageStyleResponseObject.
func (f pageFile) VisitPageStyleResponse(w http.ResponseWriter) error { return f.send(w) }

// VisitPageScriptResponse implements routes.PageScriptResponseObject.
func (f pageFile) VisitPageScriptResponse(w http.ResponseWriter) error { return f.send(w) }

// Home implements GET /.
func (h *Handlers) Home(
	_ context.Context, r routes.HomeRequestObject,
) (routes.HomeResponseObject, error) {
	file, err := page.Document()
	return pageFile{file, r.Params.AcceptEncoding, r.Params.IfNoneMatch}, err
}

// PageStyle implements GET /page.css.
func (h *Handlers) PageStyle(
	_ context.Context, r routes.PageStyleRequestObject,
) (routes.PageStyleResponseObject, error) {
	file, err := page.Style()
	return pageFile{file, r.Params.AcceptEncoding, r.Params.IfNoneMatch}, err
}

// PageScript implements GET /page.js.
func (h *Handlers) PageScript(
	_ context.Context, r routes.PageScriptRequestObject,
) (routes.PageScriptResponseObject, error) {
	file, err := page.Script()
	return pageFile{file, r.Params.AcceptEncoding, r.Params.IfNoneMatch}, err
}
