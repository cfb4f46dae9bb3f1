package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJobBehindWaitsForPauseOfAllOthers(t *testing.T) {
	sc := newTestScheduler(t, 2)
	upload := Job{Session: "upload", Chunk: 16}
	s := mustAcquire(t, sc, upload)
	got := make(chan string, 1)
	start(t, sc, context.Background(), Job{Session: "shadow", Chunk: 16, Behind: true}, got)
	soon(t, "it waits, although a worker is free", func() bool {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return sc.mu.behind.line.length == 1
	})
	require.Equal(t, 2, s.worker.Exec.Threads())
	sc.release(s)
	s = mustAcquire(t, sc, upload)
	require.Equal(t, 2, s.worker.Exec.Threads(), "who is behind takes no threads of others")
	require.Empty(t, got)
	sc.release(s)
	require.Equal(t, "shadow", <-got)
}

func TestJobBehindDoesNotStarve(t *testing.T) {
	sc := newTestScheduler(t, 1)
	upload := Job{Session: "upload", Chunk: 16}
	got := make(chan time.Duration, 1)
	s := mustAcquire(t, sc, upload)
	// This simulates another session that is always active.
	sc.mu.behind.ahead++
	begun := time.Now()
	go func() {
		s, err := sc.acquire(context.Background(), Job{Session: "shadow", Chunk: 16, Behind: true})
		if err == nil {
			got <- time.Since(begun)
			sc.release(s)
		}
	}()
	for {
		select {
		case waited := <-got:
			require.GreaterOrEqual(t, waited, starving)
			sc.release(s)
			return
		default:
			sc.release(s)
			s = mustAcquire(t, sc, upload)
		}
	}
}

func TestJobBehindGivesUpItsPlace(t *testing.T) {
	sc := newTestScheduler(t, 1)
	s := mustAcquire(t, sc, Job{Session: "upload", Chunk: 16})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := sc.acquire(ctx, Job{Session: "shadow", Chunk: 16, Behind: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	sc.release(s)
	require.Zero(t, sc.mu.active)
	require.Zero(t, sc.mu.behind.ahead)
	require.Zero(t, sc.mu.behind.line.length)
}
