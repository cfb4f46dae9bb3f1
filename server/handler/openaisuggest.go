package handler

import (
	"context"
	"net/http"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/routes"
)

// suggestCompletion answers a completion in OpenAI's form with suggestions. It charges the caller
// for the prefixes that the model has read, at least 1.
func (h *Handlers) suggestCompletion(
	ctx context.Context, body api.OpenAICompletionRequest, c batchCall,
) (routes.CreateCompletionResponseObject, error) {
	request, err := codec.DecodeOpenAISuggest(body, c.request)
	if err != nil {
		return nil, err
	}
	found, err := h.Sessions.SuggestAfter(ctx, middleware.CallerOf(ctx), c.named.id, c.model.ID,
		c.request.Prompts[0], request)
	middleware.Charge(ctx, max(1, found.Rows))
	if err != nil {
		return nil, c.named.problemOf(err)
	}
	whole := c.answer.Suggested(found)
	if !codec.Value(body.Stream) {
		return c.whole(whole), nil
	}
	return writer(func(w http.ResponseWriter) error {
		if c.named.id != "" {
			w.Header().Set(headerSession, c.named.id)
		}
		events := answer.NewEventStream(w, contract.MediaEventStream, h.Problems)
		for _, event := range codec.SuggestionEvents(whole, codec.IncludesUsage(body)) {
			if err := events.Send("", answer.NoID, event); err != nil {
				return err
			}
		}
		return events.Done()
	}), nil
}
