package session

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func feedSlowly(t *testing.T, mg *Manager, id string) (finish func()) {
	body, client := io.Pipe()
	done := make(chan error, 1)
	at := get(t, mg, id).Offset
	go func() {
		_, err := mg.Score(background, Caller{}, id, body, ScoreOptions{}, noChunks)
		done <- err
	}()
	_, err := io.WriteString(client, "0123")
	require.NoError(t, err)
	soon(t, "it is fed", func() bool { return get(t, mg, id).Offset == at+4 })
	return func() {
		client.Close()
		require.NoError(t, <-done)
	}
}

func waiting(t *testing.T, mg *Manager, id string) int32 {
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	return s.queued.Load()
}

// waitingTurns returns the number of goroutines that wait for their turn in takeTurn.
func waitingTurns() (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for of := range strings.SplitSeq(string(stacks), "\n\n") {
		state, _, _ := strings.Cut(of, "\n")
		if strings.Contains(state, "[select") && strings.Contains(of, ".takeTurn(") {
			n++
		}
	}
	return n
}

func TestFeedersThatWaitHaveTheirTurnsInOrder(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	finish := feedSlowly(t, mg, id)
	texts := []string{"first ", "second ", "third "}
	done := make(chan error, len(texts)+1)
	for i, text := range texts {
		go func() {
			_, err := mg.Score(background, Caller{}, id, strings.NewReader(text),
				ScoreOptions{Wait: time.Minute}, noChunks)
			done <- err
		}()
		soon(t, "it waits", func() bool { return waitingTurns() == i+1 })
	}
	go func() {
		r := CompleteRequest{Prompt: []byte("last"), MaxTokens: 1, Commit: CommitPrompt,
			Wait: time.Minute}
		_, err := mg.Complete(background, Caller{}, id, r, noPieces)
		done <- err
	}()
	soon(t, "it waits", func() bool { return waitingTurns() == len(texts)+1 })
	finish()
	for range cap(done) {
		require.NoError(t, <-done)
	}
	require.Equal(t, "0123"+strings.Join(texts, "")+"last", logged(t, mg, id))
	require.Zero(t, waiting(t, mg, id))
}

func TestWaitEndsWithItsTimeItsClientAndSession(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	finish := feedSlowly(t, mg, id)
	_, err := mg.Score(background, Caller{}, id, unread{t}, ScoreOptions{Wait: time.Millisecond},
		noChunks)
	require.ErrorIs(t, err, ErrBusy)
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	begin := func(ctx context.Context) {
		go func() {
			_, err := mg.Score(ctx, Caller{}, id, strings.NewReader("x"),
				ScoreOptions{Wait: time.Minute}, noChunks)
			done <- err
		}()
		soon(t, "it waits", func() bool { return waiting(t, mg, id) == 1 })
	}
	begin(ctx)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	begin(background)
	require.NoError(t, mg.Delete(Caller{}, id))
	finish()
	require.ErrorIs(t, <-done, ErrNotFound)
}

func TestQueueOfSessionIsBounded(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	finish := feedSlowly(t, mg, id)
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, WaitingMax)
	for range WaitingMax {
		go func() {
			_, err := mg.Score(ctx, Caller{}, id, unread{t}, ScoreOptions{Wait: time.Minute},
				noChunks)
			done <- err
		}()
	}
	soon(t, "all wait", func() bool { return waiting(t, mg, id) == WaitingMax })
	_, err := mg.Score(ctx, Caller{}, id, unread{t}, ScoreOptions{Wait: time.Minute}, noChunks)
	require.ErrorIs(t, err, ErrBusy)
	cancel()
	for range WaitingMax {
		require.ErrorIs(t, <-done, context.Canceled)
	}
	finish()
}

func TestDrainEndsWaits(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	body, client := io.Pipe()
	done := make(chan error, 2)
	feed := func(body io.Reader) {
		_, err := mg.Score(background, Caller{}, id, body, ScoreOptions{Wait: time.Minute},
			noChunks)
		done <- err
	}
	go feed(body)
	_, err := io.WriteString(client, "0123")
	require.NoError(t, err)
	soon(t, "it is fed", func() bool { return get(t, mg, id).Offset == 4 })
	go feed(strings.NewReader("x"))
	soon(t, "it waits", func() bool { return waiting(t, mg, id) == 1 })
	require.NoError(t, mg.Drain(background), "a drain waits for none of them")
	_, err = io.WriteString(client, "4567")
	require.NoError(t, err)
	require.ErrorIs(t, <-done, ErrDraining)
	require.ErrorIs(t, <-done, ErrDraining)
	require.EqualValues(t, 4, get(t, mg, id).Offset)
}

func TestDrainEndsWaitsOfCompletions(t *testing.T) {
	for name, complete := range map[string]func(mg *Manager, id string) error{
		"completion": func(mg *Manager, id string) error {
			_, err := mg.Complete(background, Caller{}, id, CompleteRequest{
				Prompt: []byte("x"), MaxTokens: 1, Commit: CommitAll, Wait: time.Minute,
			}, noPieces)
			return err
		},
		"batch": func(mg *Manager, id string) error {
			return mg.CompleteBatch(background, Caller{}, id, BatchRequest{
				Prompts: [][]byte{[]byte("x")}, N: 1, MaxTokens: 1, Commit: CommitAll,
				Wait: time.Minute,
			}, noPieces)
		},
	} {
		mg := newManager(t, Options{})
		id := create(t, mg, CreateRequest{})
		finish := feedSlowly(t, mg, id)
		done := make(chan error, 1)
		go func() { done <- complete(mg, id) }()
		soon(t, name+" waits", func() bool { return waiting(t, mg, id) == 1 })
		ctx, cancel := context.WithTimeout(background, time.Second)
		drained := mg.Drain(ctx)
		cancel()
		finish()
		require.ErrorIs(t, <-done, ErrDraining, name)
		require.NoError(t, drained, name)
		require.EqualValues(t, 4, get(t, mg, id).Offset, name)
	}
}

// attendedBody fails a test if its body is read during a wait: between a call of
// ScoreOptions.Attend and its end.
type attendedBody struct {
	io.Reader
	t        *testing.T
	attended *atomic.Int32
}

func (b attendedBody) Read(p []byte) (int, error) {
	require.Zero(b.t, b.attended.Load(), "whoever reads the body is told of its client")
	return b.Reader.Read(p)
}

// A Score call runs Attend while it waits for its turn and its first worker, and the context may
// end both waits. Text accepted after the waits is fed, even if the client has left.
func TestScoresAreAttendedWhileTheyWait(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	finish := feedSlowly(t, mg, id)
	var attended, calls atomic.Int32
	o := ScoreOptions{Wait: time.Minute, Attend: func() func() {
		attended.Add(1)
		calls.Add(1)
		return func() { attended.Add(-1) }
	}}
	done := make(chan error, 1)
	score := func(ctx context.Context, text string) {
		body := attendedBody{strings.NewReader(text), t, &attended}
		_, err := mg.Score(ctx, Caller{}, id, body, o, func(Chunk) error {
			require.Zero(t, attended.Load())
			return nil
		})
		done <- err
	}
	go score(background, strings.Repeat("several chunks ", 9))
	soon(t, "it waits for its turn", func() bool { return waiting(t, mg, id) == 1 })
	require.EqualValues(t, 1, attended.Load())
	finish()
	require.NoError(t, <-done)
	require.EqualValues(t, 2, calls.Load(), "for the turn, and for the first worker")

	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.lock(background))
	ctx, leave := context.WithCancel(background)
	go score(ctx, "never fed")
	soon(t, "it waits for the state", func() bool {
		return calls.Load() == 4 &&
			attended.Load() == 1
	})
	leave()
	require.ErrorIs(t, <-done, context.Canceled)
	s.unlock()
	require.Zero(t, mg.engine.waiting.length())
	require.NotContains(t, logged(t, mg, id), "never")
}
