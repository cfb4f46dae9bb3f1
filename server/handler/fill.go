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
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// FillMiddle implements POST /v1/fim/completions.
func (h *Handlers) FillMiddle(
	ctx context.Context, r routes.FillMiddleRequestObject,
) (routes.FillMiddleResponseObject, error) {
	want := codec.DecodeFIM(*r.Body)
	got, err := h.fill(ctx, want)
	if err != nil {
		return nil, err
	}
	if want.Stream {
		return h.oneEvent(got.FIMEvent()), nil
	}
	return routes.FillMiddle200JSONResponse(got.FIM()), nil
}

// GenerateText implements POST /generate.
func (h *Handlers) GenerateText(
	ctx context.Context, r routes.GenerateTextRequestObject,
) (routes.GenerateTextResponseObject, error) {
	want := codec.DecodeTGI(*r.Body)
	got, err := h.fill(ctx, want)
	if want.Echo {
		got.Text = r.Body.Inputs + got.Text
	}
	return routes.GenerateText200JSONResponse{GeneratedText: got.Text}, err
}

// OllamaGenerate implements POST /api/generate.
func (h *Handlers) OllamaGenerate(
	ctx context.Context, r routes.OllamaGenerateRequestObject,
) (routes.OllamaGenerateResponseObject, error) {
	got, err := h.fill(ctx, codec.DecodeOllama(*r.Body))
	return routes.OllamaGenerate200JSONResponse(got.Ollama()), err
}

// LlamaCompletion implements POST /completion.
func (h *Handlers) LlamaCompletion(
	ctx context.Context, r routes.LlamaCompletionRequestObject,
) (routes.LlamaCompletionResponseObject, error) {
	want := codec.DecodeLlama(*r.Body)
	got, err := h.fill(ctx, want)
	if want.Stream && err == nil {
		return h.oneEvent(got.Llama()), nil
	}
	return routes.LlamaCompletion200JSONResponse(got.Llama()), err
}

// LlamaInfill implements POST /infill.
func (h *Handlers) LlamaInfill(
	ctx context.Context, r routes.LlamaInfillRequestObject,
) (routes.LlamaInfillResponseObject, error) {
	want := codec.DecodeLlama(*r.Body)
	got, err := h.fill(ctx, want)
	if want.Stream && err == nil {
		return h.oneEvent(got.Llama()), nil
	}
	return routes.LlamaInfill200JSONResponse(got.Llama()), err
}

// TabbyComplete implements POST /tabby/v1/completions.
func (h *Handlers) TabbyComplete(
	ctx context.Context, r routes.TabbyCompleteRequestObject,
) (routes.TabbyCompleteResponseObject, error) {
	got, err := h.fill(ctx, codec.DecodeTabby(*r.Body))
	return routes.TabbyComplete200JSONResponse(got.Tabby()), err
}

// TabbyHealth implements GET /tabby/v1/health.
func (h *Handlers) TabbyHealth(
	context.Context, routes.TabbyHealthRequestObject,
) (routes.TabbyHealthResponseObject, error) {
	return routes.TabbyHealth200JSONResponse{
		Model: h.Sessions.Models()[0].ID, Device: "cpu",
	}, nil
}

// fill samples the text between a prefix and a suffix. It charges the caller for the sampled bytes.
func (h *Handlers) fill(ctx context.Context, want codec.Fill) (got codec.Filled, err error) {
	got.ID, got.Created = "cmpl-"+answer.RequestID(ctx), time.Now()
	if got.Model, err = h.modelNamed(want.Model); err != nil {
		return got, err
	}
	middleware.HasRead(ctx)
	prompt := got.Model.CountTokens([]byte(want.Prefix))
	var text []byte
	err = h.Sessions.CompleteBatch(ctx, middleware.CallerOf(ctx), "", want.Request(got.Model),
		func(p session.Piece) error {
			middleware.Charge(ctx, len(p.Text))
			text = append(text, p.Text...)
			if p.FinishReason != "" {
				got.Finish = api.FinishReason(p.FinishReason)
				got.Usage = api.OpenAIUsage{
					PromptTokens: prompt, CompletionTokens: int64(p.Tokens),
					TotalTokens: prompt + int64(p.Tokens),
				}
			}
			return nil
		})
	got.Text = codec.EncodeText(text)
	return got, err
}

// oneEvent answers with a stream of one event, in the form of OpenAI's streams.
func (h *Handlers) oneEvent(event any) writer {
	return func(w http.ResponseWriter) error {
		events := answer.NewEventStream(w, contract.MediaEventStream, h.Problems)
		if err := events.Send("", answer.NoID, event); err != nil {
			return err
		}
		return events.Done()
	}
}
