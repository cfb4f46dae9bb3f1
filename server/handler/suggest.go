package handler

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Suggest implements POST /v1/sessions/{id}/suggest. The caller is charged for the prefixes that are
// read.
func (h *Handlers) Suggest(
	ctx context.Context, r routes.SuggestRequestObject,
) (routes.SuggestResponseObject, error) {
	start := time.Now()
	request, err := codec.DecodeSuggest(*r.Body, r.Params)
	if err != nil {
		return nil, err
	}
	middleware.HasRead(ctx)
	found, err := h.Sessions.Suggest(ctx, middleware.CallerOf(ctx), r.ID, request)
	if err != nil {
		return nil, err
	}
	middleware.Charge(ctx, found.Rows)
	return routes.Suggest200JSONResponse(codec.EncodeSuggestions(found, time.Since(start))), nil
}
