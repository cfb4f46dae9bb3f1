package handler

import (
	"bytes"
	"context"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/docs"
)

// Docs implements GET /docs.
func (h *Handlers) Docs(
	context.Context, api.DocsRequestObject,
) (api.DocsResponseObject, error) {
	page, err := docs.Page()
	if err != nil {
		return nil, err
	}
	return api.Docs200TextHTMLResponse{
		Body: bytes.NewReader(page), ContentLength: int64(len(page)),
		Headers: api.Docs200ResponseHeaders{ContentSecurityPolicy: docs.Policy},
	}, nil
}
