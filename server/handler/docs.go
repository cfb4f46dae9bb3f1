package handler

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/server/docs"
	"github.com/lmserve/lmserve/server/routes"
)

// Docs implements GET /docs.
func (h *Handlers) Docs(
	context.Context, routes.DocsRequestObject,
) (routes.DocsResponseObject, error) {
	page, err := docs.Page()
	if err != nil {
		return nil, err
	}
	return routes.Docs200TextHTMLResponse{
		Body: bytes.NewReader(page), ContentLength: int64(len(page)),
		Headers: routes.Docs200ResponseHeaders{ContentSecurityPolicy: docs.Policy},
	}, nil
}
