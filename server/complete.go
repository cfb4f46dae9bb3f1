package server

import (
	"context"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/session"
)

// Complete implements POST /v1/sessions/{id}/complete.
func (h *handlers) Complete(ctx context.Context, r api.CompleteRequestObject) (api.CompleteResponseObject, error) {
	start := time.Now()
	request, err := decodeCompletion(*r.Body)
	if err != nil {
		return nil, err
	}
	if value(r.Body.Stream) {
		return completionStream{server: h.Server, ctx: ctx, id: r.ID, request: request, start: start}, nil
	}
	var logprobs []float64
	who := callerOf(ctx)
	done, err := h.sessions.Complete(ctx, who.Caller, r.ID, request, func(p session.Piece) error {
		who.meter.charge(len(p.Text), time.Now())
		logprobs = append(logprobs, p.LogProbs...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	text, exact := encodeText(done.Text)
	return api.Complete200JSONResponse{
		Type:         api.EventCompletion,
		Text:         text,
		TextBase64:   exact,
		Logprobs:     logprobs,
		FinishReason: api.FinishReason(done.FinishReason),
		Usage:        encodeUsage(done),
		Seed:         done.Seed,
		Offset:       done.Offset,
		ElapsedMs:    milliseconds(time.Since(start)),
	}, nil
}

// decodeCompletion reads what validation against the contract has let through.
func decodeCompletion(r api.CompletionRequest) (session.CompleteRequest, error) {
	request := session.CompleteRequest{
		Prompt:      r.PromptBase64,
		MaxTokens:   CompletionTokensDefault,
		Temperature: r.Temperature,
		TopP:        r.TopP,
		TopK:        value(r.TopK),
		Seed:        r.Seed,
		Commit:      string(value(r.Commit)),
		LogProbs:    value(r.Logprobs),
	}
	if r.MaxTokens != nil {
		request.MaxTokens = *r.MaxTokens
	}
	if r.Prompt != nil {
		if r.PromptBase64 != nil {
			return request, fieldProblem(api.ProblemInvalidField, "prompt_base64", "prompt beside it", "one of the two")
		}
		request.Prompt = []byte(*r.Prompt)
	}
	if r.Stop != nil {
		request.Stop = stopStrings(*r.Stop)
	}
	return request, nil
}

// stopStrings reads one string, or a list of them. Validation has seen that it is one of the two.
func stopStrings(stop api.CompletionRequest_Stop) []string {
	if one, err := stop.AsStopString(); err == nil {
		return []string{one}
	}
	list, _ := stop.AsCompletionRequestStop1()
	return list
}

// completionStream answers with an event for each piece of text.
type completionStream struct {
	server  *Server
	ctx     context.Context
	id      string
	request session.CompleteRequest
	start   time.Time
}

var _ api.CompleteResponseObject = completionStream{}

// VisitCompleteResponse implements api.CompleteResponseObject.
func (s completionStream) VisitCompleteResponse(w http.ResponseWriter) error {
	events := &eventStream{w: w, media: mediaEventStream}
	who := callerOf(s.ctx)
	done, err := s.server.sessions.Complete(s.ctx, who.Caller, s.id, s.request, func(p session.Piece) error {
		who.meter.charge(len(p.Text), time.Now())
		text, exact := encodeText(p.Text)
		return events.send(string(api.EventPiece), -1, api.PieceEvent{Type: api.EventPiece, Text: text, TextBase64: exact, Logprobs: p.LogProbs})
	})
	if err != nil {
		return s.server.endStream(s.ctx, events, err)
	}
	return events.send(string(api.EventDone), -1, api.DoneEvent{
		Type:         api.EventDone,
		FinishReason: api.FinishReason(done.FinishReason),
		Usage:        encodeUsage(done),
		Seed:         done.Seed,
		Offset:       done.Offset,
		ElapsedMs:    milliseconds(time.Since(s.start)),
	})
}
