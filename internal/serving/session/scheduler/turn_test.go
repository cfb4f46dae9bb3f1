package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func upload(session string) Job { return Job{Session: session, Chunk: 16} }

func chunks(t *testing.T, sc *Scheduler, session string, n int, each func(*slot)) {
	for range n {
		s := mustAcquire(t, sc, upload(session))
		each(s)
		sc.releaseSoon(s)
	}
}

func TestSessionKeepsItsWorkerWhileOthersWait(t *testing.T) {
	sc := newTestScheduler(t, 1)
	first := mustAcquire(t, sc, upload("a"))
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), upload("b"), got)
	sc.releaseSoon(first)
	began := time.Now()
	chunks(t, sc, "a", 5, func(s *slot) {
		// On a slow machine, the reservation may already have ended.
		if time.Since(began) < keeping {
			require.Equal(t, 1, lineLength(sc), "b still waits")
		}
		require.Same(t, first, s)
	})
	require.Equal(t, "b", <-got, "the worker is not kept for long for a session that does not come")
}

func TestJobBehindOnKeptWorkerIsNotCountedAsAhead(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, upload("a"))
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), upload("b"), got)
	sc.releaseSoon(s)
	behind := upload("a")
	behind.Behind = true
	sc.release(mustAcquire(t, sc, behind))
	require.Equal(t, "b", <-got)
	soon(t, "b's end", func() bool {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return sc.mu.active == 0 && sc.mu.behind.ahead == 0
	})
}

func TestTurnEnds(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, upload("a"))
	got := make(chan string, 1)
	inLine(t, sc, context.Background(), upload("b"), got)
	s.turn = s.turn.Add(-turn)
	sc.releaseSoon(s)
	require.Nil(t, s.kept, "b has the worker")
	require.Equal(t, "b", <-got)
}

func TestTurnBeginsAnewWhereNobodyWaited(t *testing.T) {
	sc := newTestScheduler(t, 1)
	chunks(t, sc, "a", 1, func(s *slot) { s.turn = s.turn.Add(-turn) })
	chunks(t, sc, "a", 1, func(s *slot) { require.Less(t, time.Since(s.turn), turn) })
}

func TestRequestWithoutWorkerCutsTurnShort(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, upload("a"))
	got := make(chan string)
	for n := range 3 {
		inLine(t, sc, context.Background(), upload(fmt.Sprint("upload ", n)), got)
	}
	short := upload("short")
	short.First = true
	inLine(t, sc, context.Background(), short, got)
	sc.releaseSoon(s)
	require.Nil(t, s.kept)
	for _, who := range []string{"short", "upload 0", "upload 1", "upload 2"} {
		require.Equal(t, who, <-got)
	}
}

func TestClosingEndsWorkersThatAreKept(t *testing.T) {
	sc := New(testModel(t), 2)
	one, two := mustAcquire(t, sc, upload("a")), mustAcquire(t, sc, upload("b"))
	ctx, leave := context.WithCancel(context.Background())
	got := make(chan string, 1)
	inLine(t, sc, ctx, upload("c"), got)
	sc.releaseSoon(one)
	leave()
	require.Equal(t, context.Canceled.Error(), <-got)
	sc.release(two)
	sc.Close()
	require.Empty(t, sc.mu.all)
	require.Nil(t, one.kept)
}
