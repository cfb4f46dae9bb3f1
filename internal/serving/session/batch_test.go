package session

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func batch(t fatal, mg *Manager, id string, r BatchRequest) [][]Piece {
	t.Helper()
	texts := make([][]Piece, len(r.Prompts)*r.N)
	err := mg.CompleteBatch(context.Background(), Caller{}, id, r, func(p Piece) error {
		texts[p.Index] = append(texts[p.Index], p)
		return nil
	})
	require.NoError(t, err)
	for _, pieces := range texts {
		for i, p := range pieces {
			require.Equal(
				t,
				i == len(pieces)-1,
				p.FinishReason != "",
				"the last piece, and no other",
			)
		}
	}
	return texts
}

func TestBatchedTextEqualsSingleCompletion(t *testing.T) {
	m := testModel(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		base, id := stream.New(m, stream.DefaultsFor(m, stream.Static)), ""
		if rapid.Bool().Draw(t, "session") {
			r, fed := drawRequest(t), logText(rapid.IntRange(0, 60).Draw(t, "fed"))
			base, _ = alone(t, m, r, fed)
			id = create(t, mg, r)
			score(t, mg, id, fed)
		}
		seed := rapid.Uint64Range(0, SeedMax).Draw(t, "seed")
		r := BatchRequest{
			N: rapid.IntRange(1, 3).
				Draw(t, "n"),
			MaxTokens:   rapid.IntRange(0, 40).Draw(t, "tokens"),
			Temperature: ptr(0.9), TopP: ptr(0.95), Seed: &seed, LogProbs: true,
			Echo: rapid.Bool().Draw(t, "echo"), Top: rapid.IntRange(0, 4).Draw(t, "top"),
		}
		for range rapid.IntRange(1, 3).Draw(t, "prompts") {
			n := rapid.IntRange(0, 40).Draw(t, "prompt")
			r.Prompts = append(r.Prompts, []byte(logText(100)[50:50+n]))
		}
		texts := batch(t, mg, id, r)
		for i, pieces := range texts {
			prompt := r.Prompts[i/r.N]
			sampling := txl.Sampling{
				Temperature: 0.9,
				TopP:        0.95,
				Seed:        (seed + uint64(i%r.N)) & SeedMax,
				Dry:         txl.DryDefault,
			}
			var want string
			var wantLogProbs []float64
			if r.MaxTokens > 0 {
				sampled, logProbs := inOneGo(base, w, string(prompt), sampling, r.MaxTokens)
				// drops an incomplete character at the end
				sampled = new(tokenizer.UTF8).Append(nil, sampled)
				want, wantLogProbs = string(sampled),
					append(wantLogProbs, logProbs[:len(sampled)]...)
			}
			if r.Echo {
				var read []float64
				w.Feed(base.Frozen(), prompt, func(_ []byte, scores stream.Scores) {
					for _, nll := range scores.NLL {
						read = append(read, -float64(nll))
					}
				})
				want, wantLogProbs = string(prompt)+want, append(read, wantLogProbs...)
			}
			text, logProbs := joined(pieces)
			require.Equal(t, want, text)
			require.Equal(t, wantLogProbs, logProbs)
			last := pieces[len(pieces)-1]
			require.Equal(t, FinishLength, last.FinishReason)
			require.Equal(t, r.MaxTokens, last.Tokens)
			requireTop(t, pieces, r.Top)
		}
		if id != "" {
			require.Equal(t, base.Hash(), hash(t, mg, id), "the session is as it was")
			require.NoError(t, mg.Delete(Caller{}, id))
		}
		page, _, err := mg.List(Caller{}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page, "a batch without a session leaves none")
		require.NoError(t, mg.engine.budget.Check(mg.engine.budget.Max()), "all memory can be had")
	})
}

func requireTop(t fatal, pieces []Piece, top int) {
	for _, p := range pieces {
		if top == 0 {
			require.Nil(t, p.Top)
			continue
		}
		require.Len(t, p.Top, len(p.Text))
		for i, candidates := range p.Top {
			require.Len(t, candidates, top)
			for k, c := range candidates {
				require.GreaterOrEqual(t, candidates[0].LogProb, p.LogProbs[i])
				require.True(t, k == 0 || c.LogProb <= candidates[k-1].LogProb)
				if c.ID == int32(p.Text[i]) {
					require.Equal(t, p.LogProbs[i], c.LogProb, "the token's own")
				}
			}
		}
	}
}

// Stop strings end sampled text. In the echoed prompt they are normal text. A stop string that
// begins in the prompt and ends in the sampled text does not count.
func TestStopStringsDoNotStopThePrompt(t *testing.T) {
	mg := newManager(t, Options{})
	r := BatchRequest{
		Prompts:   [][]byte{[]byte("GET GET\xc3")},
		N:         2,
		MaxTokens: 30,
		Seed:      ptr(uint64(1)),
		Echo:      true,
	}
	free := batch(t, mg, "", r)
	for i, pieces := range free {
		text, _ := joined(pieces)
		sampled := strings.TrimPrefix(text, "GET GET\xc3")
		require.InDelta(t, 30, len(sampled), utf8.UTFMax-1, "but for a character that does not end")
		r.Stop = []string{"GET", "T\xc3" + sampled[:1], sampled[5:7]}
		stopped := batch(t, mg, "", r)[i]
		got, _ := joined(stopped)
		sampled = sampled[:strings.Index(sampled, sampled[5:7])]
		whole := new(tokenizer.UTF8).Append(nil, []byte(sampled))
		require.Equal(t, "GET GET\xc3"+string(whole), got)
		require.Equal(t, FinishStop, stopped[len(stopped)-1].FinishReason)
	}
}

func TestBatchesAreHeldToTheirLimits(t *testing.T) {
	mg := newManager(t, Options{})
	good := func() BatchRequest {
		return BatchRequest{Prompts: [][]byte{{'x'}}, N: 1,
			MaxTokens: 1}
	}
	for field, spoil := range map[string][]func(r *BatchRequest){
		"prompt": {
			func(r *BatchRequest) { r.Prompts = nil },
			func(r *BatchRequest) { r.Prompts = make([][]byte, BatchPromptsMax+1) },
			func(r *BatchRequest) { r.Prompts[0] = make([]byte, BatchPromptTokens+1) },
		},
		"n": {
			func(r *BatchRequest) { r.N = 0 },
			func(r *BatchRequest) { r.N = math.MaxInt },
			func(r *BatchRequest) { r.Prompts, r.N = make([][]byte, 2), BatchTextsMax/2+1 },
		},
		"max_tokens": {
			func(r *BatchRequest) { r.MaxTokens = -1 },
			func(r *BatchRequest) { r.MaxTokens = BatchSampledTokens + 1 },
			func(r *BatchRequest) { r.N, r.MaxTokens = 2, BatchSampledTokens/2+1 },
		},
		"logprobs": {func(r *BatchRequest) { r.Top = CandidatesMax + 1 },
			func(r *BatchRequest) { r.Top = -1 }},
		"temperature": {func(r *BatchRequest) { r.Temperature = ptr(math.NaN()) }},
		"top_p":       {func(r *BatchRequest) { r.TopP = ptr(0.) }},
		"seed":        {func(r *BatchRequest) { r.Seed = ptr(uint64(SeedMax + 1)) }},
		"stop":        {func(r *BatchRequest) { r.Stop = make([]string, StopStringsMax+1) }},
	} {
		for i, spoil := range spoil {
			r := good()
			spoil(&r)
			err := mg.CompleteBatch(t.Context(), Caller{}, "", r, noPieces)
			var wrong *FieldError
			require.ErrorAs(t, err, &wrong, "%s %d", field, i)
			require.Equal(t, field, wrong.Field)
		}
	}
	require.ErrorIs(
		t,
		mg.CompleteBatch(t.Context(), Caller{}, "none", good(), noPieces),
		ErrNotFound,
	)
}

func TestBatchEndsWithItsClient(t *testing.T) {
	mg := newManager(t, Options{})
	r := BatchRequest{
		Prompts:   [][]byte{[]byte(logText(5000))},
		N:         3,
		MaxTokens: 1000,
		Echo:      true,
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := mg.CompleteBatch(ctx, Caller{}, "", r, func(Piece) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	gone := errors.New("the client is gone")
	require.ErrorIs(
		t,
		mg.CompleteBatch(t.Context(), Caller{}, "", r, func(Piece) error { return gone }),
		gone,
	)
	require.Zero(t, mg.engine.budget.Used())
	require.NoError(t, mg.Drain(t.Context()))
	require.ErrorIs(t, mg.CompleteBatch(t.Context(), Caller{}, "", r, noPieces), ErrDraining)
}

func TestBatchWithoutSessionTakesMemoryLikeSession(t *testing.T) {
	m := testModel(t)
	r := BatchRequest{Prompts: [][]byte{[]byte("x")}, N: 1, MaxTokens: 1}
	need := stream.StateBytes(m, stream.DefaultsFor(m, stream.Static))
	mg := newManager(t, Options{MaxMemoryBytes: need - 1})
	require.ErrorIs(t, mg.CompleteBatch(t.Context(), Caller{}, "", r, noPieces), ErrFull)
	require.Zero(t, mg.engine.budget.Used())
}

func TestCandidatesAreTheLikeliestInOrder(t *testing.T) {
	inf := float32(math.Inf(-1))
	logProbs := []float32{-3, -1, inf, -2, -1, -5}
	require.Nil(t, candidates(logProbs, 0))
	require.Equal(t, []Candidate{{1, -1}}, candidates(logProbs, 1))
	require.Equal(t, []Candidate{{1, -1}, {4, -1}, {3, -2}}, candidates(logProbs, 3))
	require.Equal(
		t,
		[]Candidate{{1, -1}, {4, -1}, {3, -2}, {0, -3}, {5, -5}},
		candidates(logProbs, 9),
		"none without probability",
	)
}
