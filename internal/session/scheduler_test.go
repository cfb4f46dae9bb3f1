package session

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newTestScheduler(t *testing.T, threads int) *scheduler {
	sc := newScheduler(testModel(t), threads)
	t.Cleanup(sc.close)
	return sc
}

func mustAcquire(t *testing.T, sc *scheduler, j job) *slot {
	s, err := sc.acquire(context.Background(), j)
	require.NoError(t, err)
	return s
}

// inLine starts a wait for a worker, and returns when it is in line.
func inLine(t *testing.T, sc *scheduler, ctx context.Context, j job, got chan<- string) {
	before := lineLength(sc)
	go func() {
		s, err := sc.acquire(ctx, j)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- j.session
		sc.release(s)
	}()
	soon(t, "it waits", func() bool { return lineLength(sc) > before })
}

func lineLength(sc *scheduler) int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return len(sc.line)
}

func TestWorkersGoToTheHeadOfTheLine(t *testing.T) {
	sc := newTestScheduler(t, 1)
	got := make(chan string)
	s := mustAcquire(t, sc, job{"long upload", 16})
	for _, who := range []string{"a", "b", "c"} {
		inLine(t, sc, context.Background(), job{who, 16}, got)
	}
	inLine(t, sc, context.Background(), job{"long upload", 16}, got) // its next chunk
	sc.release(s)
	for _, who := range []string{"a", "b", "c", "long upload"} {
		require.Equal(t, who, <-got)
	}
	soon(t, "nobody is active any more", func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.active == 0 && len(sc.idle) == 1 })
}

func TestThreadsFollowTheNumberOfActiveSessions(t *testing.T) {
	sc := newTestScheduler(t, 4)
	var slots []*slot
	for _, threads := range []int{4, 2, 1, 1} {
		s := mustAcquire(t, sc, job{string(rune('a' + len(slots))), 16})
		require.Equal(t, threads, s.worker.Exec.Threads(), "%d sessions before", len(slots))
		slots = append(slots, s)
	}
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), job{"waiting", 16}, got)
	sc.release(slots[0])
	require.Equal(t, "waiting", <-got)
	for _, s := range slots[1:] {
		sc.release(s)
	}
	soon(t, "all are back", func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.active == 0 })
	s := mustAcquire(t, sc, job{"alone", 16})
	require.Equal(t, 4, s.worker.Exec.Threads())
	sc.release(s)
}

func TestASessionGetsTheWorkerThatHasItsSegment(t *testing.T) {
	sc := newTestScheduler(t, 3)
	a, b := job{"a", 16}, job{"b", 16}
	first, second := mustAcquire(t, sc, a), mustAcquire(t, sc, b)
	sc.release(first)
	sc.release(second)
	for range 3 {
		got := mustAcquire(t, sc, b)
		require.Same(t, second, got)
		sc.release(got)
	}
	got := mustAcquire(t, sc, job{"c", 16})
	require.Same(t, first, got, "the least recently used of the right size")
	require.Equal(t, 2, sc.made)
	other := mustAcquire(t, sc, job{"d", 40})
	require.Equal(t, 3, sc.made, "a new one rather than another size")
	sc.release(other)
	require.Same(t, second, mustAcquire(t, sc, b))
	last := mustAcquire(t, sc, job{"e", 16})
	require.Same(t, other, last, "no more are made")
	for _, s := range []*slot{got, second, last} {
		sc.release(s)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, job{"a", 16})
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan string, 2)
	inLine(t, sc, ctx, job{"gives up", 16}, got)
	inLine(t, sc, context.Background(), job{"b", 16}, got)
	cancel()
	require.Equal(t, context.Canceled.Error(), <-got)
	sc.release(s)
	require.Equal(t, "b", <-got)
	_, err := sc.acquire(ctx, job{"late", 16})
	require.ErrorIs(t, err, context.Canceled)
	soon(t, "all are back", func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.active == 0 })
}

func TestAWorkerGrantedToOneThatGivesUpIsPassedOn(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, job{"a", 16})
	late := &ticket{job: job{"late", 16}, ready: make(chan *slot, 1)}
	sc.line, sc.active = append(sc.line, late), sc.active+1
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), job{"b", 16}, got)
	sc.release(s)  // late has it
	sc.leave(late) // and does not want it any more
	require.Equal(t, "b", <-got)
	soon(t, "all are back", func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.active == 0 && len(sc.idle) == 1 })
}

func TestAShortRequestDoesNotWaitForTheEndOfALongUpload(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	long, short := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	ctx, stop := context.WithCancel(context.Background())
	var uploaded atomic.Int64
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(ctx, Caller{}, long, endless{}, ScoreOptions{}, func(Chunk) error { uploaded.Add(1); return nil })
		done <- err
	}()
	soon(t, "the upload is under way", func() bool { return uploaded.Load() > 2 })
	chunks, _ := score(t, mg, short, logText(4*testChunk))
	require.Len(t, chunks, 4)
	_, err := mg.Complete(context.Background(), Caller{}, short, CompleteRequest{MaxTokens: 3 * testChunk}, noPieces)
	require.NoError(t, err)
	seen := uploaded.Load()
	soon(t, "the upload goes on", func() bool { return uploaded.Load() > seen })
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestAClientThatStallsHoldsNoWorker(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	stalled, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	text := logText(3 * testChunk)
	reached, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := mg.Score(context.Background(), Caller{}, stalled, strings.NewReader(text), ScoreOptions{}, func(c Chunk) error {
			if c.Step == 1 {
				close(reached)
				<-resume
			}
			return nil
		})
		done <- err
	}()
	<-reached
	score(t, mg, other, text)
	require.Equal(t, int64(2*testChunk), get(t, mg, stalled).Offset, "what it was told of is accepted")
	require.Equal(t, testChunk, get(t, mg, stalled).Pending, "and its update has to wait")
	close(resume)
	require.NoError(t, <-done)
	require.Equal(t, hash(t, mg, other), hash(t, mg, stalled), "with the same seed and text")
}

func TestAStalledCompletionHoldsNoWorker(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	stalled, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	reached, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		first := true
		_, err := mg.Complete(context.Background(), Caller{}, stalled, CompleteRequest{MaxTokens: 2 * (pieceQueue + testChunk)}, func(Piece) error {
			if first {
				close(reached)
				<-resume
			}
			first = false
			return nil
		})
		done <- err
	}()
	<-reached
	score(t, mg, other, logText(3*testChunk))
	close(resume)
	require.NoError(t, <-done)
}

func TestALeaseIsNotTakenAwayFromAHolderThatWorks(t *testing.T) {
	sc := newTestScheduler(t, 1)
	l, err := sc.lease(context.Background(), job{"a", 16})
	require.NoError(t, err)
	w := l.worker()
	require.ErrorIs(t, l.lend(func() error { return io.EOF }, time.Hour), io.EOF)
	require.Same(t, w, l.worker())
	require.NoError(t, l.lend(func() error {
		soon(t, "it was given back", func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return len(sc.idle) == 1 })
		return nil
	}, time.Nanosecond))
	require.Same(t, w, l.worker(), "taken again")
	l.release()
	l.release()
	require.Len(t, sc.idle, 1)
}
