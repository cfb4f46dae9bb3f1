package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// SuggestAfter suggests continuations of a prompt after the session's text. The prompt may be as
// long as the prompt of a completion. If id is "", there is no session, and modelName names the
// model. If the prompt is longer than stream.TypedMax, a copy of the state first reads the prompt
// without learning. The errors are those of Suggest and CompleteBatch.
func (mg *Manager) SuggestAfter(
	ctx context.Context, who Caller, id, modelName string, prompt []byte, r SuggestRequest,
) (Suggested, error) {
	if id != "" && len(prompt) <= stream.TypedMax {
		r.Typed = prompt
		return mg.Suggest(ctx, who, id, r)
	}
	s, done, err := mg.grounds(who, id, modelName)
	if err != nil {
		return Suggested{}, err
	}
	defer done()
	read := BatchRequest{Prompts: [][]byte{prompt}, N: 1}
	if err := cmp.Or(checkBatch(s.model.Tokenizer, read), checkSuggest(s, r)); err != nil {
		return Suggested{}, err
	}
	if err := mg.life.Enter(); err != nil {
		return Suggested{}, err
	}
	defer mg.life.Leave()
	if id != "" {
		defer mg.index.touch(s)
	}
	g := generation{
		engine: mg.engine, s: s, blank: id == "", plan: plan{n: 1}, within: r.Within,
	}
	return g.suggest(ctx, prompt, r)
}

// suggest returns likely continuations of a prompt, which a copy of the state reads. If the time
// ends before the prompt is read, suggest returns none, and the next request continues the reading.
func (g *generation) suggest(
	ctx context.Context, prompt []byte, r SuggestRequest,
) (found Suggested, err error) {
	if err := g.open(ctx); err != nil {
		return found, err
	}
	defer g.s.unlock()
	read, err := g.readLocked(ctx, prompt, g.drafts(0, false))
	if errors.Is(err, errUnread) {
		return Suggested{Offset: g.s.seen().offset}, nil
	}
	if err != nil {
		return found, err
	}
	options := r.options(g.engine.scheduler.Busy())
	if r.Within > 0 {
		options.Within = max(1, r.Within-g.took)
	}
	var what suggest.Found
	turn := g.turnLocked(ctx, func(w *stream.Worker) {
		what, err = w.Suggest(ctx, read, new(stream.Suggester), nil, options)
	})
	found = Suggested{
		Offset: g.s.seen().offset, Candidates: what.Candidates, Complete: what.Complete,
		Rows: what.Rows,
	}
	return found, cmp.Or(turn, err)
}
