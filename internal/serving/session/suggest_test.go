package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// Suggestions do not change a session: it scores bit-identically to a session without suggestions.
// Sessions with the same text suggest the same.
func TestSuggestionsLeaveTheSessionAsItIs(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		if r.Settings[`method`] == MethodCache {
			return
		}
		asked, alone, fresh := create(t, mg, r), create(t, mg, r), create(t, mg, r)
		text := logText(200)
		for _, piece := range cut(t, text, 60) {
			var wait sync.WaitGroup
			for _, typed := range []string{"", "GET", "é 2"} {
				wait.Go(func() {
					_, err := mg.Suggest(context.Background(), Caller{}, asked,
						SuggestRequest{Typed: []byte(typed), N: 3})
					require.NoError(t, err)
				})
			}
			wait.Wait()
			score(t, mg, asked, piece)
		}
		score(t, mg, alone, text)
		require.Equal(t, hash(t, mg, alone), hash(t, mg, asked))
		score(t, mg, fresh, text)
		request := SuggestRequest{Typed: []byte("GE"), N: 5, Unit: string(suggest.Free)}
		first, err := mg.Suggest(context.Background(), Caller{}, fresh, request)
		require.NoError(t, err)
		require.EqualValues(t, len(text), first.Offset)
		again, err := mg.Suggest(context.Background(), Caller{}, alone, request)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

// Suggestions count in the memory of their state and are dropped with the state. Other states may
// be dropped for them.
func TestSuggestionsCountInTheMemory(t *testing.T) {
	probe := newServer(t, t.TempDir(), Options{Threads: 1})
	defer func() { probe.stop() }()
	suggested := func(mg *Manager, id string) int64 {
		_, err := mg.Suggest(t.Context(), Caller{}, id, SuggestRequest{N: 5})
		require.NoError(t, err)
		return get(t, mg, id).MemoryBytes
	}
	id := create(t, probe.mg, CreateRequest{})
	score(t, probe.mg, id, logText(100))
	state := get(t, probe.mg, id).MemoryBytes
	more := suggested(probe.mg, id) - state
	require.Positive(t, more)
	withSession(t, probe.mg, id, func(s *session) { s.giveUpLocked() })
	require.Zero(t, get(t, probe.mg, id).MemoryBytes)

	full := newServer(t, t.TempDir(), Options{Threads: 1, MaxMemoryBytes: 2 * state})
	defer func() { full.stop() }()
	a, b := create(t, full.mg, CreateRequest{}), create(t, full.mg, CreateRequest{})
	for _, id := range []string{a, b} {
		score(t, full.mg, id, logText(100))
	}
	require.Equal(t, state+more, suggested(full.mg, b))
	require.Zero(t, get(t, full.mg, a).MemoryBytes, "it made room")
	score(t, full.mg, a, "more")
	require.Zero(t, get(t, full.mg, b).MemoryBytes, "and gets it back")

	// The memory of a session in use cannot be freed.
	withSession(t, full.mg, a, func(*session) {
		require.Equal(t, state, suggested(full.mg, b))
		withSession(t, full.mg, b, func(s *session) { require.Nil(t, s.suggester) })
	})
}

// States in a memory store are never dropped, so their suggesters must not use memory that text
// needs.
func TestSuggestionsKeepNothingInAMemoryStore(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	before := get(t, mg, id).MemoryBytes
	_, err := mg.Suggest(t.Context(), Caller{}, id, SuggestRequest{N: 5})
	require.NoError(t, err)
	require.Equal(t, before, get(t, mg, id).MemoryBytes)
	withSession(t, mg, id, func(s *session) { require.Nil(t, s.suggester) })
}

type queueObserver struct {
	unobserved
	then func()
}

func (o *queueObserver) Phase(_ context.Context, p Phase, _, _ time.Time) {
	if p == PhaseQueue && o.then != nil {
		o.then()
	}
}

// Waits of a request do not shorten the time of its search.
func TestSuggestDoesNotCountWaits(t *testing.T) {
	var queue queueObserver
	mg := newManager(t, Options{Threads: 1, Observer: &queue})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	r := SuggestRequest{N: 5, Unit: string(suggest.Free)}
	want, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	r.Within = time.Second
	queue.then = func() { time.Sleep(r.Within) }
	got, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

type endingLease struct {
	ownLease
	over atomic.Bool
}

func (l *endingLease) Err() error {
	if l.over.Load() {
		return errors.New("the lease is over")
	}
	return nil
}

// If the lease ends while a request waits for a worker, the server does not answer the request, but
// reports what was computed.
func TestSuggestAnswersNothingBehindItsLease(t *testing.T) {
	var queue queueObserver
	mg := newManager(t, Options{Threads: 1, Observer: &queue})
	var ending endingLease
	mg.engine.lease.Lease = &ending
	id := create(t, mg, CreateRequest{})
	queue.then = func() { ending.over.Store(true) }
	found, err := mg.Suggest(t.Context(), Caller{}, id,
		SuggestRequest{N: 5, Unit: string(suggest.Free)})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, found.Candidates)
	require.Positive(t, found.Rows)
}

func TestSuggestRefusesWhatItCannotDo(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	for field, r := range map[string]SuggestRequest{
		"n":               {N: 0},
		"typed":           {N: 1, Typed: []byte(strings.Repeat("x", 1025))},
		"unit":            {N: 1, Unit: "sentence"},
		"min_probability": {N: 1, Least: 1.5},
		"within_ms":       {N: 1, Within: -1},
		"refused":         {N: 1, Refused: make([]string, RefusedMax+1)},
	} {
		_, err := mg.Suggest(t.Context(), Caller{}, id, r)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	_, err := mg.Suggest(t.Context(), Caller{}, "nobody", SuggestRequest{N: 1})
	require.ErrorIs(t, err, ErrNotFound)
}

// A suffix does not change the candidates, but sorts them by the cost of candidate and suffix
// together.
func TestSuffixRanksSuggestions(t *testing.T) {
	m := testModel(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	mg := newManager(t, Options{})
	base, _ := alone(t, m, CreateRequest{}, logText(400))
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(400))
	r := SuggestRequest{N: fillCandidates, Unit: string(suggest.Free), Typed: []byte("GET ")}
	plain, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	r.Suffix = []byte(" from 10.0.0.3 -> 200\nGET /index.html")
	ranked, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	require.Greater(t, len(plain.Candidates), 1)
	require.ElementsMatch(t, plain.Candidates, ranked.Candidates)
	require.Greater(t, ranked.Rows, plain.Rows, "what ranks them is read, too")
	last := 0.
	for _, c := range ranked.Candidates {
		nats, s := 0., base.Frozen()
		w.Feed(s, r.Typed, nil)
		text := c.Text + string(r.Suffix[:fillSuffixBytes])
		w.Feed(s, []byte(text), func(_ []byte, scores stream.Scores) {
			nats += scores.Bits()
		})
		require.GreaterOrEqual(t, nats, last-rounding)
		last = nats
	}
	r.N = 1
	first, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	require.Equal(t, ranked.Candidates[:1], first.Candidates)
	require.Equal(t, base.Hash(), hash(t, mg, id), "the session is as it was")
}

func TestSuggestDoesNotOfferWhatIsRefused(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	r := SuggestRequest{N: 1, Unit: string(suggest.Free)}
	first, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	require.True(t, first.Complete)
	r.Refused = []string{first.Candidates[0].Text}
	other, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	for _, c := range other.Candidates {
		require.False(t, strings.HasPrefix(c.Text, r.Refused[0]), c.Text)
	}
}

// If as many requests wait as there are workers, a search is cut short. The result then says that
// the search is incomplete.
func TestSuggestIsQuickUnderLoad(t *testing.T) {
	var queue queueObserver
	mg := newManager(t, Options{Threads: 1, Observer: &queue})
	id, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	r := SuggestRequest{N: 5, Unit: string(suggest.Free)}
	var waits sync.WaitGroup
	queue.then = func() { // The suggestion uses the only worker, so another request must wait.
		queue.then = nil
		waits.Go(func() { score(t, mg, other, "more") })
		require.Eventually(t, mg.engine.scheduler.Busy, time.Minute, time.Millisecond)
	}
	quick, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	waits.Wait()
	require.False(t, quick.Complete)
	require.NotEmpty(t, quick.Candidates)
	whole, err := mg.Suggest(t.Context(), Caller{}, id, r)
	require.NoError(t, err)
	require.True(t, whole.Complete)
	require.Greater(t, whole.Rows, quick.Rows/2)
}
