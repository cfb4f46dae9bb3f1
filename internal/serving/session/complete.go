package session

import (
	"context"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

func commits(commit string) bool { return commit == CommitPrompt || commit == CommitAll }

// beginCommit gives a completion that commits the exclusive right to feed the session. The caller
// must call end if err is nil. beginCommit also checks that there is space for the text to commit.
func (e *engine) beginCommit(
	ctx context.Context, s *session, r CompleteRequest,
) (end func(), err error) {
	if !commits(r.Commit) {
		return func() {}, nil
	}
	if end, err = e.beginFeeding(ctx, s, r.Wait); err != nil {
		return nil, err
	}
	if err = e.roomFor(s, r.Prompt, r.Commit, r.MaxTokens); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// complete runs a checked completion. If r.Commit is CommitPrompt or CommitAll, it first feeds the
// prompt to the session. So the model learns from the prompt before it samples. With CommitAll, it
// also feeds the sampled text, after sampling.
func (e *engine) complete(
	ctx context.Context, s *session, r CompleteRequest, emit func(Piece) error,
) (Completion, error) {
	maxWait := e.maxWaitOf(r.Wait)
	f := feeder{
		reports: reports{engine: e, s: s, emit: noChunks}, maxWait: maxWait, interrupts: true,
	}
	prompt := r.Prompt
	if commits(r.Commit) {
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

// roomFor returns an error if the session, the disk or the memory has too little space for the text
// to commit: the prompt and, with CommitAll, the sampled tokens.
func (e *engine) roomFor(s *session, prompt []byte, commit string, sampled int) error {
	if commit != CommitAll {
		sampled = 0
	}
	bytes := int64(len(prompt)) + int64(sampled)*int64(s.model.Tokenizer.SpellMax())
	tokens := len(prompt) + sampled
	if have := s.seen().offset; have+bytes > e.textMax {
		return &LimitError{Offset: have, Max: e.textMax}
	}
	// + 4: the first and the last record of the prompt and of the sampled text may be short
	records := tokens/s.Settings.Chunk + 4
	if s.model.OfWords() {
		bytes += int64(records) * storage.WordsBytes
	}
	if err := e.diskFor(s, int(bytes), records); err != nil {
		return err
	}
	return memoryError(e.budget.Check(textBytes(e.store, int(bytes), records)))
}
