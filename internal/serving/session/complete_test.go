package session

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

func noPieces(Piece) error { return nil }

func complete(t fatal, mg *Manager, id string, r CompleteRequest) (Completion, []Piece) {
	t.Helper()
	var pieces []Piece
	done, err := mg.Complete(context.Background(), Caller{}, id, r,
		func(p Piece) error { pieces = append(pieces, p); return nil })
	require.NoError(t, err)
	return done, pieces
}

// inOneGo samples n tokens after a prompt, directly from a stream without a server.
func inOneGo(s *stream.Stream, w *stream.Worker, prompt string, p txl.Sampling, n int) (text []byte,
	logProbs []float64) {
	s = s.Frozen()
	w.Feed(s, []byte(prompt), nil)
	w.Generate(s, txl.NewSampler(p, 256), func(id int32, logProb float32) bool {
		text, logProbs = append(text, byte(id)), append(logProbs, float64(logProb))
		return len(text) < n
	})
	return text, logProbs
}

func TestCompletionInTurnsEqualsOneInOneGo(t *testing.T) {
	m := testModel(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	for _, threads := range []int{1, 3} {
		mg := newManager(t, Options{Threads: threads})
		rapid.Check(t, func(t *rapid.T) {
			r, fed := drawRequest(t), logText(rapid.IntRange(0, 60).Draw(t, "fed"))
			prompt := logText(100)[60 : 60+rapid.IntRange(0, 40).Draw(t, "prompt")]
			n := rapid.IntRange(1, 90).Draw(t, "tokens")
			seed := rapid.Uint64Range(0, SeedMax).Draw(t, "seed")
			topK := rapid.SampledFrom([]int{0, 5}).Draw(t, "top_k")
			temperature := rapid.SampledFrom([]float64{0, 0.9}).Draw(t, "temperature")
			dry := rapid.SampledFrom([]float64{0, txl.DryDefault}).Draw(t, "dry")
			s, _ := alone(t, m, r, fed)
			want, wantLogProbs := inOneGo(s, w, prompt, txl.Sampling{Temperature: temperature,
				TopP: 0.95, TopK: topK, Seed: seed, Dry: dry}, n)

			id := create(t, mg, r)
			score(t, mg, id, fed)
			request := CompleteRequest{
				Prompt: []byte(prompt), MaxTokens: n, Temperature: &temperature, TopP: ptr(0.95),
				TopK: topK, Seed: &seed, Dry: &dry, LogProbs: true,
			}
			var wait sync.WaitGroup
			for range 2 { // other completions use the same workers
				wait.Go(func() {
					other := create(t, mg, r)
					score(t, mg, other, logText(70))
					done, _ := complete(t, mg, other, request)
					require.Equal(t, n, done.CompletionTokens)
				})
			}
			done, pieces := complete(t, mg, id, request)
			wait.Wait()
			text, logProbs := joined(pieces)
			want = new(tokenizer.UTF8).Append(nil, want) // drops an incomplete last character
			require.Equal(t, string(want), text)
			if len(want) == 0 {
				want = nil
			}
			require.Equal(t, append([]float64(nil), wantLogProbs[:len(want)]...), logProbs)
			require.Equal(t, Completion{Text: want, FinishReason: FinishLength,
				PromptTokens: len(prompt), CompletionTokens: n, Seed: seed,
				Offset: int64(len(fed))}, done)
			require.Equal(t, s.Hash(), hash(t, mg, id), "the session is as it was")
			for page, _, _ := mg.List(Caller{}, "", 0); len(page) > 0; page = page[1:] {
				require.NoError(t, mg.Delete(Caller{}, page[0].ID))
			}
		})
	}
}

func TestScoresAfterACompletionAreThoseWithoutIt(t *testing.T) {
	mg := newManager(t, Options{})
	text := logText(90)
	plain, disturbed := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	chunks, _ := score(t, mg, plain, text)
	var got []float64
	for at := 0; at < len(text); at += 15 {
		before := get(t, mg, disturbed)
		complete(t, mg, disturbed, CompleteRequest{Prompt: []byte("what if?"), MaxTokens: 20})
		after := get(t, mg, disturbed)
		after.LastUsed = before.LastUsed
		require.Equal(t, before, after)
		part, _ := score(t, mg, disturbed, text[at:at+15])
		got = append(got, logProbs(part)...)
	}
	require.Equal(t, logProbs(chunks), got)
	require.Equal(t, hash(t, mg, plain), hash(t, mg, disturbed))
}

func TestCompletionsRunBetweenTheChunksOfAFeeder(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	id, text := create(t, mg, CreateRequest{}), logText(40*testChunk)
	done := make(chan struct{})
	go func() {
		defer close(done)
		score(t, mg, id, text)
	}()
	completions := 0
	for feeding := true; feeding; completions++ {
		complete(t, mg, id, CompleteRequest{MaxTokens: 5})
		get(t, mg, id)
		select {
		case <-done:
			feeding = false
		default:
		}
	}
	requireFed(t, mg, id, text, "after %d completions", completions)
}

func TestCommittedTextIsFedAsByScore(t *testing.T) {
	mg := newManager(t, Options{})
	fed, prompt := logText(21), logText(70)[30:]
	for commit, after := range map[string]func(text string) string{
		"":           func(string) string { return fed },
		CommitNone:   func(string) string { return fed },
		CommitPrompt: func(string) string { return fed + prompt },
		CommitAll:    func(text string) string { return fed + prompt + text },
	} {
		id := create(t, mg, CreateRequest{})
		score(t, mg, id, fed)
		done, _ := complete(t, mg, id, CompleteRequest{Prompt: []byte(prompt), MaxTokens: 33,
			Commit: commit})
		text := after(string(done.Text))
		require.Equal(t, int64(len(text)), done.Offset, commit)
		requireFed(t, mg, id, text, commit)
		require.Equal(t, text, logged(t, mg, id), commit)
	}
}

func TestCommittingCompletionIsFeeder(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	body, client := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, id, body, ScoreOptions{}, noChunks)
		done <- err
	}()
	_, err := io.WriteString(client, "held")
	require.NoError(t, err)
	for _, commit := range []string{CommitPrompt, CommitAll} {
		_, err := mg.Complete(context.Background(), Caller{}, id,
			CompleteRequest{Prompt: []byte("p"), MaxTokens: 1, Commit: commit}, noPieces)
		require.ErrorIs(t, err, ErrBusy)
	}
	complete(t, mg, id, CompleteRequest{MaxTokens: 1})
	client.Close()
	require.NoError(t, <-done)
	committed, _ := complete(t, mg, id, CompleteRequest{MaxTokens: 8, Commit: CommitAll})
	require.NotEmpty(t, committed.Text)
	require.Equal(t, int64(len("held")+len(committed.Text)), get(t, mg, id).Offset)
}

func TestSamplingFollowsTheRequest(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(50))
	greedy, pieces := complete(t, mg, id, CompleteRequest{MaxTokens: 12, Temperature: ptr(0.)})
	again, _ := complete(t, mg, id, CompleteRequest{MaxTokens: 12, TopK: 1, Temperature: ptr(5.)})
	require.Equal(t, greedy.Text, again.Text, "the likeliest token")
	require.NotEqual(t, greedy.Seed, again.Seed, "drawn at random and reported")
	require.LessOrEqual(t, again.Seed, uint64(SeedMax))
	for _, p := range pieces {
		require.Nil(t, p.LogProbs, "not asked for")
	}
	first, _ := complete(t, mg, id, CompleteRequest{MaxTokens: 40})
	second, _ := complete(t, mg, id, CompleteRequest{MaxTokens: 40, Seed: &first.Seed})
	require.Equal(t, first, second, "the reported seed gives the text again")
}

// By default, a completion does not repeat the loop in the session's text, also in a batch. Without
// the penalty on loops (Dry is 0), it copies the text.
func TestCompletionAvoidsLoops(t *testing.T) {
	mg := newManager(t, Options{})
	loop := strings.Repeat("GET /index.html 304\n", 12)
	counts := setting.Values{"method": MethodStatic, "companion": true}
	id := create(t, mg, CreateRequest{Settings: counts})
	score(t, mg, id, loop)
	r := CompleteRequest{MaxTokens: 80, Temperature: ptr(0.)}
	avoids, _ := complete(t, mg, id, r)
	r.Dry = ptr(0.)
	loops, _ := complete(t, mg, id, r)
	require.Equal(t, loop[:80], string(loops.Text))
	require.NotEqual(t, loop[:80], string(avoids.Text))
	require.Equal(t, loop[:32], string(avoids.Text[:32]), "a copy, up to where it repeats itself")
	pieces := batch(t, mg, id, BatchRequest{
		Prompts: [][]byte{nil}, N: 1, MaxTokens: 80, Temperature: ptr(0.),
	})
	text, _ := joined(pieces[0])
	require.Equal(t, string(avoids.Text), text)
}

func TestCompletionEndsBeforeStopString(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(50))
	seed := uint64(5)
	whole, _ := complete(t, mg, id, CompleteRequest{MaxTokens: 60, Seed: &seed})
	for _, at := range []int{0, 7, 30, 57} {
		stop := string(whole.Text[at : at+3])
		r := CompleteRequest{MaxTokens: 60, Seed: &seed, Stop: []string{"no such text", stop},
			Commit: CommitAll, LogProbs: true}
		fresh := create(t, mg, CreateRequest{})
		score(t, mg, fresh, logText(50))
		done, pieces := complete(t, mg, fresh, r)
		end := strings.Index(string(whole.Text), stop)
		require.Equal(t, string(whole.Text[:end]), string(done.Text))
		require.Equal(t, FinishStop, done.FinishReason)
		require.Equal(t, end+3, done.CompletionTokens, "the tokens of the stop string were sampled")
		require.Equal(t, int64(50+end), done.Offset, "and are not committed")
		text, logProbs := joined(pieces)
		require.Equal(t, string(done.Text), text)
		require.Len(t, logProbs, end)
	}
}

func TestCompletionEndsWithItsClient(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	gone := errors.New("broken pipe")
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(20))
	before := hash(t, mg, id)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	long := CompleteRequest{MaxTokens: 65536, Commit: CommitNone}
	_, err := mg.Complete(ctx, Caller{}, id, long, func(Piece) error { return gone })
	require.ErrorIs(t, err, gone)
	require.Panics(t, func() {
		_, _ = mg.Complete(ctx, Caller{}, id, long,
			func(Piece) error { panic(gone) })
	})
	pieces := 0
	_, err = mg.Complete(ctx, Caller{}, id, long, func(Piece) error {
		if pieces++; pieces == 3 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, hash(t, mg, id))

	_, err = mg.Complete(context.Background(), Caller{}, id, CompleteRequest{Prompt: []byte("kept"),
		MaxTokens: 500, Commit: CommitAll}, func(Piece) error { return gone })
	require.ErrorIs(t, err, gone)
	requireFed(t, mg, id, logText(20)+"kept", "the prompt was fed, the text was not")
}

func TestCompletionOfDeletedSessionEnds(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	_, err := mg.Complete(context.Background(), Caller{}, id, CompleteRequest{MaxTokens: 65536},
		func(Piece) error {
			_ = mg.Delete(Caller{}, id)
			return nil
		})
	require.ErrorIs(t, err, ErrNotFound)
}

func TestCompletionFieldsOutOfRangeAreNamed(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	for field, change := range map[string]func(r *CompleteRequest){
		"prompt":      func(r *CompleteRequest) { r.Prompt = make([]byte, PromptBytesMax+1) },
		"max_tokens":  func(r *CompleteRequest) { r.MaxTokens = 0 },
		"temperature": func(r *CompleteRequest) { r.Temperature = ptr(math.NaN()) },
		"top_p":       func(r *CompleteRequest) { r.TopP = ptr(0.) },
		"top_k":       func(r *CompleteRequest) { r.TopK = -1 },
		"dry":         func(r *CompleteRequest) { r.Dry = ptr(txl.DryMax + 1.) },
		"seed":        func(r *CompleteRequest) { r.Seed = ptr(uint64(SeedMax + 1)) },
		"stop":        func(r *CompleteRequest) { r.Stop = make([]string, StopStringsMax+1) },
		"stop[1]":     func(r *CompleteRequest) { r.Stop = []string{"a", ""} },
		"commit":      func(r *CompleteRequest) { r.Commit = "everything" },
	} {
		r := CompleteRequest{MaxTokens: 1, Prompt: []byte("p"), Commit: CommitAll}
		change(&r)
		_, err := mg.Complete(context.Background(), Caller{}, id, r, noPieces)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
	}
	require.Zero(t, get(t, mg, id).Offset)
}

func TestCompletionReportsLikeliestTokens(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Seed: ptr(uint64(1))})
	score(t, mg, id, logText(100))
	r := CompleteRequest{MaxTokens: 20, Seed: ptr(uint64(2)), LogProbs: true}
	plain, pieces := complete(t, mg, id, r)
	requireTop(t, pieces, 0)
	r.Top = CandidatesMax
	done, pieces := complete(t, mg, id, r)
	require.Equal(t, plain, done)
	requireTop(t, pieces, CandidatesMax)

	for found, wrong := range map[string]CompleteRequest{
		"21": {MaxTokens: 1, LogProbs: true, Top: 21}, "-1": {MaxTokens: 1, LogProbs: true,
			Top: -1},
		"2": {MaxTokens: 1, Top: 2},
	} {
		_, err := mg.Complete(t.Context(), Caller{}, id, wrong, noPieces)
		var field *FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, "top_logprobs", field.Field)
		require.Equal(t, found, field.Found)
	}
}
