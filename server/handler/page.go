package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/page"
	"github.com/lmserve/lmserve/server/routes"
)

func pageFile(file *page.File, acceptEncoding, ifNoneMatch *string) writer {
	return func(w http.ResponseWriter) error {
		file.Answer(w, codec.Value(acceptEncoding), codec.Value(ifNoneMatch))
		return nil
	}
}

// Home implements GET /.
func (h *Handlers) Home(
	_ context.Context, r routes.HomeRequestObject,
) (routes.HomeResponseObject, error) {
	file, err := page.Document(h.Version)
	return pageFile(file, r.Params.AcceptEncoding, r.Params.IfNoneMatch), err
}

// PageStyle implements GET /page.css.
func (h *Handlers) PageStyle(
	_ context.Context, r routes.PageStyleRequestObject,
) (routes.PageStyleResponseObject, error) {
	file, err := page.Style()
	return pageFile(file, r.Params.AcceptEncoding, r.Params.IfNoneMatch), err
}

// PageScript implements GET /page.js.
func (h *Handlers) PageScript(
	_ context.Context, r routes.PageScriptRequestObject,
) (routes.PageScriptResponseObject, error) {
	file, err := page.Script()
	return pageFile(file, r.Params.AcceptEncoding, r.Params.IfNoneMatch), err
}
