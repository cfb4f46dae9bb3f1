package handler

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// Complete implements POST /v1/sessions/{id}/complete.
func (h *Handlers) Complete(
	ctx context.Context, r routes.CompleteRequestObject,
) (routes.CompleteResponseObject, error) {
	start := time.Now()
	request, err := codec.DecodeCompletion(*r.Body, r.Params)
	if err != nil {
		return nil, err
	}
	middleware.HasRead(ctx)
	model, err := h.Sessions.ModelOf(middleware.CallerOf(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	call := completeCall{h.Sessions, r.ID, request, codec.NewPieceEncoder(model)}
	if codec.Value(r.Body.Stream) {
		return writer(func(w http.ResponseWriter) error {
			return call.stream(ctx, answer.NewEventStream(w, contract.MediaEventStream, h.Problems),
				start)
		}), nil
	}
	if request.LogProbs {
		scores := int64(request.MaxTokens) * int64(1+request.Top)
		taken, err := h.Memory.Take(ctx, limits.LogProbBytes*scores)
		if err != nil {
			return nil, err
		}
		defer taken.Keep(0)
	}
	var scores api.PieceEvent
	done, err := call.run(ctx, func(p session.Piece) error {
		piece := call.encode.Piece(p)
		scores.Logprobs = append(scores.Logprobs, piece.Logprobs...)
		scores.Tokens = append(scores.Tokens, piece.Tokens...)
		scores.TopLogprobs = append(scores.TopLogprobs, piece.TopLogprobs...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return routes.Complete200JSONResponse(codec.EncodeCompletion(done, scores, time.Since(start))),
		nil
}

type completeCall struct {
	sessions Sessions
	id       string
	request  session.CompleteRequest
	encode   *codec.PieceEncoder
}

func (c completeCall) run(
	ctx context.Context, emit func(session.Piece) error,
) (session.Completion, error) {
	report := func(p session.Piece) error {
		middleware.Charge(ctx, len(p.Text))
		return emit(p)
	}
	return c.sessions.Complete(ctx, middleware.CallerOf(ctx), c.id, c.request, report)
}

func (c completeCall) stream(
	ctx context.Context, events *answer.EventStream, start time.Time,
) error {
	done, err := c.run(ctx, func(p session.Piece) error {
		return events.Send(string(api.EventPiece), answer.NoID, c.encode.Piece(p))
	})
	if err != nil {
		return events.Fail(ctx, err)
	}
	return events.Send(string(api.EventDone), answer.NoID, codec.EncodeDone(done,
		time.Since(start)))
}
