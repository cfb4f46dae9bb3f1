package handler

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Suggest implements POST /v1/sessions/{id}/suggest. It charges the caller for the prefixes that
// the model has read, at least 1, even if Suggest returns an error.
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
	middleware.Charge(ctx, max(1, found.Rows))
	if err != nil {
		return nil, err
	}
	return routes.Suggest200JSONResponse(codec.EncodeSuggestions(found, time.Since(start))), nil
}
