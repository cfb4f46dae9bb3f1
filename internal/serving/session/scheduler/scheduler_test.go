package scheduler

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testModel(t testing.TB) *model.Model {
	m, err := modeltest.Small()
	require.NoError(t, err)
	return m
}

func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, time.Millisecond, what)
}

func newTestScheduler(t *testing.T, threads int) *Scheduler {
	sc := New(testModel(t), threads)
	t.Cleanup(sc.Close)
	return sc
}

func mustAcquire(t *testing.T, sc *Scheduler, j Job) *slot {
	s, err := sc.acquire(context.Background(), j)
	require.NoError(t, err)
	return s
}

// start runs a job on another goroutine. The job sends its session's id, or the error, to got. The
// test ends only after the job: Close ends only the workers of released slots. A job that still
// waits for a slot is canceled.
func start(t *testing.T, sc *Scheduler, ctx context.Context, j Job, got chan string) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		for {
			select {
			case <-got:
			case <-done:
				return
			}
		}
	})
	go func() {
		defer close(done)
		s, err := sc.acquire(ctx, j)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- j.Session
		sc.release(s)
	}()
}

func inLine(t *testing.T, sc *Scheduler, ctx context.Context, j Job, got chan string) {
	before := lineLength(sc)
	start(t, sc, ctx, j, got)
	soon(t, "it waits", func() bool { return lineLength(sc) > before })
}

func lineLength(sc *Scheduler) int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.mu.line.length
}

func TestWorkersGoToTheHeadOfTheLine(t *testing.T) {
	sc := newTestScheduler(t, 1)
	got := make(chan string)
	s := mustAcquire(t, sc, Job{Session: "long upload", Chunk: 16})
	for _, who := range []string{"a", "b", "c"} {
		inLine(t, sc, context.Background(), Job{Session: who, Chunk: 16}, got)
	}
	inLine(t, sc, context.Background(), Job{Session: "long upload", Chunk: 16}, got)
	sc.release(s)
	for _, who := range []string{"a", "b", "c", "long upload"} {
		require.Equal(t, who, <-got)
	}
	soon(t, "nobody is active any more",
		func() bool {
			sc.mu.Lock()
			defer sc.mu.Unlock()
			return sc.mu.active == 0 &&
				len(sc.mu.idle) == 1
		})
}

func TestThreadsFollowTheNumberOfActiveSessions(t *testing.T) {
	sc := newTestScheduler(t, 4)
	var slots []*slot
	for _, threads := range []int{4, 2, 1, 1} {
		s := mustAcquire(t, sc, Job{Session: string(rune('a' + len(slots))), Chunk: 16})
		require.Equal(t, threads, s.worker.Exec.Threads(), "%d sessions before", len(slots))
		slots = append(slots, s)
	}
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), Job{Session: "waiting", Chunk: 16}, got)
	sc.release(slots[0])
	require.Equal(t, "waiting", <-got)
	for _, s := range slots[1:] {
		sc.release(s)
	}
	soon(t, "all are back",
		func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.mu.active == 0 })
	s := mustAcquire(t, sc, Job{Session: "alone", Chunk: 16})
	require.Equal(t, 4, s.worker.Exec.Threads())
	sc.release(s)
}

func TestSessionGetsWorkerThatHasItsSegment(t *testing.T) {
	sc := newTestScheduler(t, 3)
	a, b := Job{Session: "a", Chunk: 16}, Job{Session: "b", Chunk: 16}
	first, second := mustAcquire(t, sc, a), mustAcquire(t, sc, b)
	sc.release(first)
	sc.release(second)
	for range 3 {
		got := mustAcquire(t, sc, b)
		require.Same(t, second, got)
		sc.release(got)
	}
	got := mustAcquire(t, sc, Job{Session: "c", Chunk: 16})
	require.Same(t, first, got, "the least recently used of the right size")
	require.Equal(t, 2, len(sc.mu.all))
	other := mustAcquire(t, sc, Job{Session: "d", Chunk: 40})
	require.Equal(t, 3, len(sc.mu.all), "a new one rather than another size")
	sc.release(other)
	require.Same(t, second, mustAcquire(t, sc, b))
	last := mustAcquire(t, sc, Job{Session: "e", Chunk: 16})
	require.Same(t, other, last, "no more are made")
	for _, s := range []*slot{got, second, last} {
		sc.release(s)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, Job{Session: "a", Chunk: 16})
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan string, 2)
	inLine(t, sc, ctx, Job{Session: "gives up", Chunk: 16}, got)
	inLine(t, sc, context.Background(), Job{Session: "b", Chunk: 16}, got)
	cancel()
	require.Equal(t, context.Canceled.Error(), <-got)
	sc.release(s)
	require.Equal(t, "b", <-got)
	_, err := sc.acquire(ctx, Job{Session: "late", Chunk: 16})
	require.ErrorIs(t, err, context.Canceled)
	soon(t, "all are back",
		func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return sc.mu.active == 0 })
}

func TestUnwantedWorkerIsPassedOn(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, Job{Session: "a", Chunk: 16})
	late := &ticket{job: Job{Session: "late", Chunk: 16}, ready: make(chan *slot, 1)}
	sc.mu.line.join(late)
	sc.mu.active++
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), Job{Session: "b", Chunk: 16}, got)
	sc.release(s)
	sc.leave(late)
	require.Equal(t, "b", <-got)
	soon(t, "all are back",
		func() bool {
			sc.mu.Lock()
			defer sc.mu.Unlock()
			return sc.mu.active == 0 &&
				len(sc.mu.idle) == 1
		})
}

func TestWorkingHolderKeepsItsLease(t *testing.T) {
	sc := newTestScheduler(t, 1)
	l, err := sc.Lease(context.Background(), Job{Session: "a", Chunk: 16})
	require.NoError(t, err)
	w := l.Worker()
	require.ErrorIs(t, l.Yield(func() error { return io.EOF }, time.Hour), io.EOF)
	require.Same(t, w, l.Worker())
	require.NoError(t, l.Yield(func() error {
		soon(t, "it was given back",
			func() bool { sc.mu.Lock(); defer sc.mu.Unlock(); return len(sc.mu.idle) == 1 })
		return nil
	}, time.Nanosecond))
	require.Same(t, w, l.Worker(), "taken again")
	l.Release()
	l.Release()
	require.Len(t, sc.mu.idle, 1)
}
