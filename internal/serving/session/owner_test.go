package session

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
)

func TestSessionExistsForItsKeyAndForAdminsOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mg, err := NewManager(testModel(t), Options{})
		require.NoError(rt, err)
		defer func() { require.NoError(rt, mg.Drain(context.Background())) }()
		owner := map[string]string{}
		callers := []Caller{{}, {Key: "a"}, {Key: "b"}, {Key: "a", Admin: true}, {Key: "c"}}
		for range rapid.IntRange(1, 8).Draw(rt, "sessions") {
			who := rapid.SampledFrom(callers).Draw(rt, "who")
			info, err := mg.Create(context.Background(), who, CreateRequest{})
			require.NoError(rt, err)
			owner[info.ID] = who.Key
		}
		for _, who := range callers {
			var want, got []string
			for id, key := range owner {
				if who.Admin || key == who.Key {
					want = append(want, id)
				} else {
					requireNotFound(rt, mg, who, id)
				}
			}
			slices.Sort(want)
			limit := rapid.IntRange(1, 4).Draw(rt, "limit")
			for after := ""; ; {
				page, next, _ := mg.List(who, after, limit)
				for _, info := range page {
					got = append(got, info.ID)
					if who.Admin {
						require.Equal(rt, owner[info.ID], info.Owner)
					} else {
						require.Empty(rt, info.Owner)
					}
				}
				if after = next; next == "" {
					break
				}
			}
			require.Equal(rt, want, got)
		}
		for id, key := range owner {
			require.NoError(rt, mg.Delete(Caller{Key: key}, id))
		}
		require.Zero(rt, mg.index.registry.Places())
	})
}

func requireNotFound(t fatal, mg *Manager, who Caller, id string) {
	t.Helper()
	_, err := mg.Get(who, id)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, mg.Delete(who, id), ErrNotFound)
	_, err = mg.Score(context.Background(), who, id, strings.NewReader("x"), ScoreOptions{}, nil)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = mg.Complete(context.Background(), who, id, CompleteRequest{MaxTokens: 1}, nil)
	require.ErrorIs(t, err, ErrNotFound)
}

func TestSessionLimitIsPerKey(t *testing.T) {
	mg := newManager(t, Options{})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	a, b := Caller{Key: "a", MaxSessions: 2}, Caller{Key: "b", MaxSessions: 1}
	first, err := mg.Create(context.Background(), a, CreateRequest{})
	require.NoError(t, err)
	_, err = mg.Create(context.Background(), a, CreateRequest{TTL: time.Minute})
	require.NoError(t, err)
	_, err = mg.Create(context.Background(), a, CreateRequest{})
	require.EqualError(t, err, "session: the key has 2 live sessions, its maximum")
	require.ErrorAs(t, err, new(*QuotaError))
	_, err = mg.Create(context.Background(), b, CreateRequest{})
	require.NoError(t, err)

	require.NoError(t, mg.Delete(a, first.ID))
	_, err = mg.Create(context.Background(), a, CreateRequest{})
	require.NoError(t, err)
	_, err = mg.Create(context.Background(), a, CreateRequest{})
	require.ErrorAs(t, err, new(*QuotaError))
	now = now.Add(time.Hour)
	_, err = mg.Create(context.Background(), a, CreateRequest{})
	require.NoError(t, err, "the expired make room")
}

func TestFullQueueRefusesOnlyNewRequests(t *testing.T) {
	q := &queue{max: 1}
	ran := 0
	work := func() error { ran++; return nil }
	var first, second bool
	require.NoError(t, q.wait("a", &first, func() error {
		require.ErrorIs(t, q.wait("a", &second, work), ErrOverloaded)
		require.False(t, second)
		require.NoError(t, q.wait("a", &first, work), "it has begun before")
		return nil
	}))
	require.Equal(t, 1, ran)
	require.NoError(t, q.wait("a", &second, work))
	require.True(t, second)
	require.Zero(t, q.length())
}

func TestFullQueueRefusesRequestsNotYetBegun(t *testing.T) {
	mg := newManager(t, Options{Threads: 1, MaxQueue: 2})
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = create(t, mg, CreateRequest{})
	}
	reached, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 3)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, ids[0],
			strings.NewReader(logText(4*testChunk)), ScoreOptions{}, func(c Chunk) error {
				if c.Step == 0 {
					close(reached)
					<-resume
				}
				return nil
			})
		done <- err
	}()
	<-reached
	held, err := mg.engine.scheduler.Lease(context.Background(), scheduler.Job{Session: "another",
		Chunk: testChunk})
	require.NoError(t, err)
	for i := 1; i <= 2; i++ {
		go func() {
			_, err := mg.Score(context.Background(), Caller{}, ids[i], strings.NewReader("waits"),
				ScoreOptions{}, noChunks)
			done <- err
		}()
		soon(t, "it waits", func() bool { return mg.engine.waiting.length() == i })
	}
	_, err = mg.Score(context.Background(), Caller{}, ids[3], strings.NewReader("is refused"),
		ScoreOptions{}, nil)
	require.ErrorIs(t, err, ErrOverloaded)
	_, err = mg.Complete(context.Background(), Caller{}, ids[3], CompleteRequest{MaxTokens: 1},
		noPieces)
	require.ErrorIs(t, err, ErrOverloaded)
	_, err = mg.Complete(context.Background(), Caller{}, ids[3], CompleteRequest{MaxTokens: 1,
		Prompt: []byte("p"), Commit: CommitPrompt}, noPieces)
	require.ErrorIs(t, err, ErrOverloaded)
	require.Zero(t, get(t, mg, ids[3]).Offset)
	close(resume)
	held.Release()
	for range 3 {
		require.NoError(t, <-done)
	}
	require.Zero(t, mg.engine.waiting.length())
	score(t, mg, ids[3], "there is room again")
}

func TestShortRequestPassesLongText(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	long, short := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	text, more := io.Pipe()
	scored := make(chan string, 1)
	var all sync.WaitGroup
	feed := func(id string, body io.Reader) {
		all.Go(func() {
			_, err := mg.Score(background, Caller{}, id, body, ScoreOptions{}, func(Chunk) error {
				scored <- id
				return nil
			})
			assert.NoError(t, err)
		})
	}
	feed(long, text)
	write := func() {
		_, err := io.WriteString(more, logText(testChunk))
		require.NoError(t, err)
	}
	write()
	require.Equal(t, long, <-scored)
	held, err := mg.engine.scheduler.Lease(background, scheduler.Job{Session: "another",
		Chunk: testChunk})
	require.NoError(t, err)
	write()
	soon(t, "the long text's next chunk waits",
		func() bool { return mg.engine.waiting.length() == 1 })
	feed(short, strings.NewReader("short"))
	soon(t, "the short text waits", func() bool { return mg.engine.waiting.length() == 2 })
	held.Release()
	require.Equal(t, short, <-scored)
	require.Equal(t, long, <-scored)
	require.NoError(t, more.Close())
	all.Wait()
}

// If requests of one key fill the queue, requests of other keys can still enter the queue.
func TestFullQueueHasPartForEachKey(t *testing.T) {
	q := queue{max: 6}
	var wait func(keys []string) error
	wait = func(keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		return q.wait(keys[0], new(bool), func() error { return wait(keys[1:]) })
	}
	full := []string{"a", "a", "a", "a", "a", "a"}
	require.NoError(t, wait(full))
	require.ErrorIs(t, wait(append(full, "a")), ErrOverloaded)
	require.NoError(t, wait(append(full, "b", "b", "b")), "half of it")
	require.ErrorIs(t, wait(append(full, "b", "b", "b", "b")), ErrOverloaded)
	require.NoError(t, wait(append(full, "b", "b", "c", "c")), "a third of it")
	require.ErrorIs(t, wait(append(full, "b", "b", "c", "c", "b")), ErrOverloaded)
	require.Zero(t, q.length())
	require.Empty(t, q.mu.of)
}
