package handler

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// headerSession is the request and response header that names the session of a completion.
const headerSession = "X-Session-ID"

// CreateCompletion implements POST /v1/completions.
func (h *Handlers) CreateCompletion(
	ctx context.Context, r routes.CreateCompletionRequestObject,
) (routes.CreateCompletionResponseObject, error) {
	start := time.Now()
	model, err := h.completionModel(ctx, r)
	if err != nil {
		return nil, err
	}
	request, err := codec.DecodeBatch(model, *r.Body)
	if err == nil {
		err = codec.DecodeCommit(&request, *r.Body, r.Params)
	}
	if err != nil {
		return nil, err
	}
	middleware.HasRead(ctx)
	named, err := h.completionSession(ctx, model, r.Params.XSessionID, r.Body.User)
	if err != nil {
		return nil, err
	}
	call := batchCall{h.Sessions, named, model, request, codec.NewOpenAIAnswer(
		"cmpl-"+answer.RequestID(ctx), model, start, request)}
	if r.Body.Suggest != nil {
		return h.suggestCompletion(ctx, *r.Body, call)
	}
	if codec.Value(r.Body.Stream) {
		return writer(func(w http.ResponseWriter) error {
			return h.streamBatch(ctx, w, call, codec.IncludesUsage(*r.Body))
		}), nil
	}
	if err := codec.CheckAnswer(model, request); err != nil {
		return nil, err
	}
	return writer(func(w http.ResponseWriter) error { return h.wholeBatch(ctx, w, call) }), nil
}

// namedSession is the session that a request names. The field id is "" if the request names no
// session.
type namedSession struct {
	id    string
	field string // header or JSON field that names the session
}

// problemOf turns session.ErrNotFound into a problem that names the field.
func (s namedSession) problemOf(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return problem.Field(api.ProblemSessionNotFound, s.field, problem.Quoted(s.id),
			"the id or the name of a session")
	}
	return err
}

// completionModel returns the model that the request names, else the model of the session that the
// request names, else the default model.
func (h *Handlers) completionModel(
	ctx context.Context, r routes.CreateCompletionRequestObject,
) (session.ModelInfo, error) {
	if r.Body.Model != nil {
		return h.modelNamed(r.Body.Model)
	}
	text := cmp.Or(codec.Value(r.Params.XSessionID), codec.Value(r.Body.User))
	model, err := h.Sessions.ModelOf(middleware.CallerOf(ctx), text)
	// An unknown session gets the default model here, because completionSession reports the error.
	if errors.Is(err, session.ErrNotFound) {
		return h.modelNamed(nil)
	}
	return model, err
}

// completionSession returns the session that a completion names by id or name, in the header or
// else in the field `user`. For an unknown user, it creates a session if UserSessions is set;
// otherwise the completion has no session. It returns an error if the session has another model.
func (h *Handlers) completionSession(
	ctx context.Context, model session.ModelInfo, header, user *string,
) (namedSession, error) {
	who := middleware.CallerOf(ctx)
	if header != nil {
		named := namedSession{*header, headerSession}
		info, err := h.Sessions.Get(who, *header)
		if err != nil {
			return namedSession{}, named.problemOf(err)
		}
		named.id = info.ID
		return named, checkSessionModel(model, info)
	}
	if user == nil || *user == "" {
		return namedSession{}, nil
	}
	info, err := h.Sessions.Get(who, *user)
	switch {
	case err == nil:
		return namedSession{info.ID, "user"}, checkSessionModel(model, info)
	case !errors.Is(err, session.ErrNotFound):
		return namedSession{}, err
	case !h.UserSessions:
		return namedSession{}, nil
	}
	id, err := h.users.session(ctx, h.Sessions, who, model.ID, *user)
	return namedSession{id, "user"}, err
}

type batchCall struct {
	sessions Sessions
	named    namedSession
	model    session.ModelInfo
	request  session.BatchRequest
	answer   *codec.OpenAIAnswer
}

// run calls CompleteBatch and charges the caller for the sampled text.
func (c batchCall) run(ctx context.Context, emit func(session.Piece) error) error {
	who := middleware.CallerOf(ctx)
	err := c.sessions.CompleteBatch(ctx, who, c.named.id, c.request, func(p session.Piece) error {
		middleware.Charge(ctx, c.answer.Sampled(p))
		return emit(p)
	})
	return c.named.problemOf(err)
}

// wholeBatch answers with all texts in one JSON object. It reserves memory for the texts until they
// are sent.
func (h *Handlers) wholeBatch(ctx context.Context, w http.ResponseWriter, c batchCall) error {
	taken, err := h.Memory.Take(ctx, codec.AnswerBytes(c.model, c.request))
	if err != nil {
		return err
	}
	defer taken.Keep(0)
	err = c.run(ctx, func(p session.Piece) error { c.answer.Add(p); return nil })
	if err != nil {
		return err
	}
	return c.whole(c.answer.Whole()).VisitCreateCompletionResponse(w)
}

func (c batchCall) whole(body api.OpenAICompletion) routes.CreateCompletion200JSONResponse {
	whole := routes.CreateCompletion200JSONResponse{Body: body}
	if c.named.id != "" {
		whole.Headers.XSessionID = &c.named.id
	}
	return whole
}

// streamBatch answers with an event stream: one event per piece of sampled text.
func (h *Handlers) streamBatch(
	ctx context.Context, w http.ResponseWriter, c batchCall, usage bool,
) error {
	taken, err := h.Memory.Take(ctx, codec.StreamBytes(c.request))
	if err != nil {
		return err
	}
	defer taken.Keep(0)
	events := answer.NewEventStream(w, contract.MediaEventStream, h.Problems)
	err = c.run(ctx, func(p session.Piece) error {
		if c.named.id != "" {
			w.Header().Set(headerSession, c.named.id)
		}
		event := c.answer.Event(p)
		if usage {
			return events.Send("", answer.NoID, codec.WithoutUsage{OpenAICompletion: event})
		}
		return events.Send("", answer.NoID, event)
	})
	if err == nil && usage {
		err = events.Send("", answer.NoID, c.answer.UsageEvent())
	}
	if err != nil {
		return events.Fail(ctx, err)
	}
	return events.Done()
}

// GetModel implements GET /v1/models/{model}.
func (h *Handlers) GetModel(
	_ context.Context, r routes.GetModelRequestObject,
) (routes.GetModelResponseObject, error) {
	model, err := h.modelNamed(&r.Model)
	if err != nil {
		return nil, err
	}
	return routes.GetModel200JSONResponse(codec.EncodeModel(model)), nil
}

// Tokenize implements POST /tokenize.
func (h *Handlers) Tokenize(
	_ context.Context, r routes.TokenizeRequestObject,
) (routes.TokenizeResponseObject, error) {
	model, err := h.modelNamed(r.Body.Model)
	if err != nil {
		return nil, err
	}
	return writer(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", contract.MediaJSON)
		w.WriteHeader(http.StatusOK)
		return codec.WriteTokens(w, model, r.Body.Prompt)
	}), nil
}

// Detokenize implements POST /detokenize.
func (h *Handlers) Detokenize(
	_ context.Context, r routes.DetokenizeRequestObject,
) (routes.DetokenizeResponseObject, error) {
	model, err := h.modelNamed(r.Body.Model)
	if err != nil {
		return nil, err
	}
	text, err := codec.Detokenized(model, "tokens", r.Body.Tokens)
	if err != nil {
		return nil, err
	}
	return routes.Detokenize200JSONResponse{Prompt: codec.EncodeText(text)}, nil
}

// TokenizerInfo implements GET /tokenizer_info.
func (h *Handlers) TokenizerInfo(
	context.Context, routes.TokenizerInfoRequestObject,
) (routes.TokenizerInfoResponseObject, error) {
	return routes.TokenizerInfo200JSONResponse(codec.EncodeTokenizer(h.Sessions.Models()[0])), nil
}

// modelNamed finds a model by name or id; nil selects the default model. It returns an error if
// several models share the name.
func (h *Handlers) modelNamed(name *string) (session.ModelInfo, error) {
	served := h.Sessions.Models()
	if name == nil {
		return served[0], nil
	}
	named := session.ModelsNamed(served, *name)
	if len(named) == 1 {
		return named[0], nil
	}
	found, expected := problem.Quoted(*name), []string(nil)
	if len(named) > 1 {
		found = session.SharedName(*name, len(named))
		for _, m := range named {
			expected = append(expected, m.ID)
		}
	} else {
		for _, m := range served {
			expected = append(expected, m.ID, m.Name)
		}
	}
	return session.ModelInfo{}, problem.Field(api.ProblemModelNotFound, "model", found,
		problem.OneOf(expected))
}

// checkSessionModel returns an error if the session has another model than m.
func checkSessionModel(m session.ModelInfo, info session.Info) error {
	if info.Model == m.ID || info.Err != nil {
		return nil
	}
	return problem.Field(api.ProblemModelNotFound, "model", m.ID, info.Model+", the session's "+
		"model")
}
