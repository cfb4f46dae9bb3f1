package session

import (
	"context"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// commits reports whether the completion feeds its text to the session.
func (r *CompleteRequest) commits() bool {
	return r.Commit == CommitPrompt ||
		r.Commit == CommitAll
}

// beginCommit reserves the right to feed a session for a completion that commits, until the caller
// calls end. It also reserves space for the text to commit.
func (e *engine) beginCommit(
	ctx context.Context, s *session, r CompleteRequest,
) (end func(), err error) {
	if !r.commits() {
		return func() {}, nil
	}
	if end, err = e.beginFeeding(ctx, s, r.Wait); err != nil {
		return nil, err
	}
	sampled := 0
	if r.Commit == CommitAll {
		sampled = r.MaxTokens
	}
	if err = e.roomFor(s, len(r.Prompt), sampled); err == nil {
		err = s.cutDelivery(ctx, 0)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// complete runs a completion whose request was checked. A completion that commits first feeds the
// prompt, so that the model learns from the prompt before it samples. With CommitAll, it feeds the
// sampled text last.
func (e *engine) complete(
	ctx context.Context, s *session, r CompleteRequest, emit func(Piece) error,
) (Completion, error) {
	maxWait := e.maxWaitOf(r.Wait)
	f := feeder{reports: reports{engine: e, s: s, emit: noChunks}, maxWait: maxWait}
	prompt := r.Prompt
	if r.commits() {
		if err := f.all(ctx, prompt); err != nil {
			return Completion{}, err
		}
		prompt = nil
	}
	seed := seedOr(r.Seed)
	g := generation{engine: e, s: s, admitted: f.admitted, maxWait: maxWait, plan: plan{
		prompts: [][]byte{prompt}, n: 1, maxTokens: r.MaxTokens, sampling: r.sampling().Sampling,
		seed: &seed, stops: r.Stop, logProbs: r.LogProbs, top: r.Top,
		static: r.From == FromStatic,
	}}
	done := Completion{Seed: seed, PromptTokens: tokenizer.Count(s.model.Tokenizer, r.Prompt)}
	err := g.run(ctx, func(p Piece) error {
		done.FinishReason, done.CompletionTokens = p.FinishReason, p.Tokens
		if len(p.Text) == 0 && len(p.LogProbs) == 0 {
			return nil
		}
		done.Text = append(done.Text, p.Text...)
		return emit(p)
	})
	f.admitted, f.maxWait = true, 0
	if err == nil && r.Commit == CommitAll {
		err = f.all(ctx, done.Text)
	}
	done.Offset = s.seen().offset
	return done, err
}

// roomFor returns an error if the session, the disk or the memory has too little room for the text
// to commit. Parameter prompt is the length of the prompt in bytes, and sampled is the number of
// tokens.
func (e *engine) roomFor(s *session, prompt, sampled int) error {
	bytes := int64(prompt) + int64(sampled)*int64(s.model.Tokenizer.SpellMax())
	tokens := prompt + sampled
	if have := s.seen().offset; have+bytes > e.textMax {
		return &LimitError{Offset: have, Max: e.textMax}
	}
	// four more, because the first and last records of prompt and sampled text are short
	records := tokens/s.Settings.Chunk + 4
	if s.model.OfWords() {
		bytes += int64(records) * storage.WordsBytes
	}
	if err := e.diskFor(s, int(bytes), records); err != nil {
		return err
	}
	return memoryError(e.budget.Check(textBytes(e.store, int(bytes), records)))
}
