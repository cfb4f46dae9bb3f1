package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawCommit(t *rapid.T) (r BatchRequest, fed string) {
	fed = logText(rapid.IntRange(0, 60).Draw(t, "fed"))
	r = BatchRequest{
		Prompts:   [][]byte{[]byte(logText(200)[:rapid.IntRange(0, 90).Draw(t, "prompt")])},
		N:         1,
		MaxTokens: rapid.IntRange(0, 40).Draw(t, "tokens"),
		Seed:      ptr(rapid.Uint64Range(0, SeedMax).Draw(t, "sampling")),
		Echo:      rapid.Bool().Draw(t, "echo"),
		LogProbs:  rapid.Bool().Draw(t, "logprobs"),
		Commit:    rapid.SampledFrom([]string{CommitPrompt, CommitAll}).Draw(t, "commit"),
	}
	if rapid.Bool().Draw(t, "stop") {
		r.Stop = []string{" ", "e", "2"}
	}
	if r.Commit == CommitPrompt {
		r.N = rapid.IntRange(1, 3).Draw(t, "n")
	}
	return r, fed
}

// A batch that commits returns the same texts as the same batch without a commit. Then its session
// is bit-identical to a session that was fed the committed text.
func TestCommittedBatchIsFedToItsSession(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		made := drawRequest(t)
		r, fed := drawCommit(t)
		id, twin := create(t, mg, made), create(t, mg, made)
		score(t, mg, id, fed)
		score(t, mg, twin, fed)
		texts := batch(t, mg, id, r)
		end := texts[r.N-1]
		last := end[len(end)-1]
		require.NotNil(t, last.Offset)
		require.Equal(t, get(t, mg, id).Offset, *last.Offset)

		plain := r
		plain.Commit = ""
		committed := string(r.Prompts[0])
		for i, pieces := range batch(t, mg, twin, plain) {
			require.Nil(t, pieces[len(pieces)-1].Offset)
			want, wantLogProbs := joined(pieces)
			text, logProbs := joined(texts[i])
			require.Equal(t, want, text)
			require.Equal(t, wantLogProbs, logProbs)
			end, wantEnd := texts[i][len(texts[i])-1], pieces[len(pieces)-1]
			require.Equal(t, wantEnd.FinishReason, end.FinishReason)
			require.Equal(t, wantEnd.Tokens, end.Tokens)
			switch {
			case r.Commit == CommitAll && r.Echo:
				committed = text
			case r.Commit == CommitAll:
				committed += text
			}
		}
		score(t, mg, twin, committed)
		require.Equal(t, hash(t, mg, twin), hash(t, mg, id))
		require.EqualValues(t, len(fed)+len(committed), *last.Offset)
		require.NoError(t, mg.Delete(Caller{}, id))
		require.NoError(t, mg.Delete(Caller{}, twin))
	})
}

// A batch commits nothing if its client disconnects early, or if it names a wrong offset.
func TestBatchCommitsNothingUnlessWhole(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	gone := errors.New("the client is gone")
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		r, fed := drawCommit(t)
		id := create(t, mg, drawRequest(t))
		score(t, mg, id, fed)
		before := hash(t, mg, id)
		pieces := 0
		_ = mg.CompleteBatch(context.Background(), Caller{}, id, plainOf(r), func(Piece) error {
			pieces++
			return nil
		})
		stopAt := rapid.IntRange(0, pieces-1).Draw(t, "pieces that arrive")
		cancels := rapid.Bool().Draw(t, "cancels")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		told := 0
		err := mg.CompleteBatch(ctx, Caller{}, id, r, func(p Piece) error {
			if told++; told <= stopAt || p.Offset != nil {
				return nil
			}
			if cancels {
				cancel()
				return nil
			}
			return gone
		})
		if err != nil { // err is nil if the client received all pieces before the commit
			refused++
			require.Equal(t, before, hash(t, mg, id))
			require.EqualValues(t, len(fed), get(t, mg, id).Offset)
		}
		at := get(t, mg, id).Offset
		r.Offset = ptr(at + 1)
		err = mg.CompleteBatch(context.Background(), Caller{}, id, r, func(Piece) error {
			return gone
		})
		var elsewhere *OffsetError
		require.ErrorAs(t, err, &elsewhere)
		require.Equal(t, at, elsewhere.Have)
		require.Equal(t, at, get(t, mg, id).Offset)
		require.NoError(t, mg.Delete(Caller{}, id))
	})
	if !testing.Short() { // the few checks of a short test may all commit
		require.Positive(t, refused)
	}
}

func plainOf(r BatchRequest) BatchRequest {
	r.Commit = ""
	return r
}

type leaver struct {
	unobserved
	leave func()
}

func (l leaver) Phase(_ context.Context, p Phase, _, _ time.Time) {
	if p == PhaseCommit {
		l.leave()
	}
}

// The client disconnects during the commit. The session still gets the whole text.
func TestCommitContinuesWithoutItsClient(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	mg := newManager(t, Options{Threads: 2, Observer: leaver{leave: leave}})
	id := create(t, mg, CreateRequest{})
	prompt := logText(10 * testChunk)
	err := mg.CompleteBatch(ctx, Caller{}, id, BatchRequest{
		Prompts: [][]byte{[]byte(prompt)}, N: 1, Commit: CommitPrompt,
	}, noPieces)
	require.NoError(t, err)
	require.Error(t, ctx.Err(), "the client left after the first chunk")
	require.EqualValues(t, len(prompt), get(t, mg, id).Offset)
}

// Concurrent batches on one session do not mix: each prompt is followed by its sampled text.
func TestCommittingBatchesTakeTurns(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	id := create(t, mg, CreateRequest{})
	const clients = 8
	var all sync.WaitGroup
	whole := make([]string, clients)
	for i := range clients {
		all.Go(func() {
			r := BatchRequest{
				Prompts: [][]byte{{'<', byte('a' + i)}}, N: 1, MaxTokens: 20, Commit: CommitAll,
				Wait: WaitMax,
			}
			pieces := batch(t, mg, id, r)[0]
			text, _ := joined(pieces)
			end := pieces[len(pieces)-1].Offset
			n := int64(2 + len(text))
			part, err := mg.Text(t.Context(), Caller{}, id, *end-n, n)
			require.NoError(t, err)
			whole[i] = string(r.Prompts[0]) + text
			require.Equal(t, whole[i], string(part.Text))
		})
	}
	all.Wait()
	bytes := 0
	for _, text := range whole {
		bytes += len(text)
	}
	require.EqualValues(t, bytes, get(t, mg, id).Offset)
}

func TestCommitIsRefusedWhereItMeansNothing(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	one, two := [][]byte{{'x'}}, [][]byte{{'x'}, {'y'}}
	for field, c := range map[string]struct {
		id string
		r  BatchRequest
	}{
		"commit": {"", BatchRequest{Prompts: one, N: 1, Commit: CommitPrompt}},
		"prompt": {id, BatchRequest{Prompts: two, N: 1, Commit: CommitPrompt}},
		"n":      {id, BatchRequest{Prompts: one, N: 2, Commit: CommitAll}},
		"offset": {id, BatchRequest{Prompts: one, N: 1, Offset: new(int64)}},
	} {
		err := mg.CompleteBatch(t.Context(), Caller{}, c.id, c.r, noPieces)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
	}
	require.Zero(t, get(t, mg, id).Offset)
}
