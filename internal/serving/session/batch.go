package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
)

// checkBatch checks a request against the limits. Its errors name the fields of OpenAI's API.
func checkBatch(tok tokenizer.Tokenizer, r BatchRequest) error {
	bytes, tokens := 0, 0
	for _, prompt := range r.Prompts {
		bytes += len(prompt)
		tokens += tokenizer.Count(tok, prompt)
	}
	texts := len(r.Prompts) * r.N
	for _, c := range []struct {
		field, found   string
		have, from, to int
	}{
		{"prompt", "%d prompts", len(r.Prompts), 1, BatchPromptsMax},
		{"prompt", "prompts of %d tokens", tokens, 0, BatchPromptTokens},
		{"prompt", "prompts of %d bytes", bytes, 0, PromptBytesMax},
		{"n", "%d texts per prompt", r.N, 1, BatchTextsMax},
		{"n", "%d texts", texts, 1, BatchTextsMax},
		{"max_tokens", "%d tokens per text", r.MaxTokens, 0, BatchSampledTokens},
		{"max_tokens", "%d tokens in all texts", texts * r.MaxTokens, 0, BatchSampledTokens},
		{"logprobs", "the %d likeliest tokens", r.Top, 0, CandidatesMax},
	} {
		if c.have < c.from || c.have > c.to {
			return &FieldError{c.field, fmt.Sprintf(c.found, c.have),
				fmt.Sprintf("%d to %d", c.from, c.to)}
		}
	}
	// MaxTokens of a batch may be 0. SamplingTable, which is for single completions, refuses 0.
	sampling := r.sampling()
	sampling.MaxTokens = max(1, r.MaxTokens)
	if err := SamplingTable.Check(&sampling); err != nil {
		return fieldError("", err)
	}
	return cmp.Or(checkSeed(r.Seed), checkStops(r.Stop))
}

// batch runs a request that checkBatch has accepted. The parameter blank means that the session is
// not in the store.
func (e *engine) batch(
	ctx context.Context, s *session, blank bool, r BatchRequest, emit func(Piece) error,
) error {
	g := generation{engine: e, s: s, blank: blank, plan: plan{
		prompts: r.Prompts, n: r.N, maxTokens: r.MaxTokens,
		sampling: r.sampling().Sampling, seed: r.Seed, stops: r.Stop,
		suffix: r.Suffix, echo: r.Echo, logProbs: r.LogProbs, top: r.Top,
	}}
	g.prepareFill()
	return g.run(ctx, emit)
}
