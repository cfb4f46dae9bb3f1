package handler

import (
	"bytes"
	"context"
	"net/http"

	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// GetText implements GET /v1/sessions/{id}/text.
func (h *Handlers) GetText(
	ctx context.Context, r routes.GetTextRequestObject,
) (routes.GetTextResponseObject, error) {
	asked := codec.DecodeText(r.Params)
	taken, err := h.Memory.Take(ctx, asked.Length)
	if err != nil {
		return nil, err
	}
	part, err := h.Sessions.Text(
		ctx, middleware.CallerOf(ctx), r.ID, asked.Offset, asked.Length)
	if err != nil {
		taken.Keep(0)
		return nil, err
	}
	made := routes.GetText200ApplicationOctetStreamResponse{
		Body: bytes.NewReader(part.Text), ContentLength: int64(len(part.Text)),
		Headers: routes.GetText200ResponseHeaders{
			LmserveSessionOffset: part.End, LmserveTextFrom: part.From,
		},
	}
	return writer(func(w http.ResponseWriter) error {
		defer taken.Keep(0)
		return made.VisitGetTextResponse(w)
	}), nil
}

// GetScores implements GET /v1/sessions/{id}/scores.
func (h *Handlers) GetScores(
	ctx context.Context, r routes.GetScoresRequestObject,
) (routes.GetScoresResponseObject, error) {
	asked := codec.DecodeScores(r.Params)
	taken, err := h.Memory.Take(ctx, limits.PastScoreBytes*int64(asked.Points))
	if err != nil {
		return nil, err
	}
	defer taken.Keep(0)
	found, err := h.Sessions.Scores(
		ctx, middleware.CallerOf(ctx), r.ID, asked.Offset, asked.Length, asked.Points)
	if err != nil {
		return nil, err
	}
	encode, err := h.encoder(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return routes.GetScores200JSONResponse(encode.PastScores(found)), nil
}
