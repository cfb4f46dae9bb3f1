package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// ScoreTexts implements POST /v1/score.
func (h *Handlers) ScoreTexts(
	ctx context.Context, r routes.ScoreTextsRequestObject,
) (routes.ScoreTextsResponseObject, error) {
	request := codec.DecodeTexts(*r.Body)
	middleware.HasRead(ctx)
	return writer(func(w http.ResponseWriter) error {
		events := answer.NewEventStream(w, contract.MediaNDJSON, h.Problems)
		index := int32(0)
		err := h.Sessions.ScoreTexts(ctx, middleware.CallerOf(ctx), request,
			func(m session.ModelInfo, sum session.Summary) error {
				score := codec.NewEncoder(m).Text(index, sum)
				index++
				return events.Send(string(api.EventText), answer.NoID, score)
			})
		if err != nil {
			return events.Fail(ctx, err)
		}
		return nil
	}), nil
}
