package lifecycle

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func over(drained <-chan struct{}) bool {
	select {
	case <-drained:
		return true
	default:
		return false
	}
}

func leased() error { return nil }

func TestOperationsBeginOnlyWhileItServes(t *testing.T) {
	ends := 0
	l := New(leased, func() { ends++ })
	require.ErrorIs(t, l.Enter(), ErrLoading)
	l.Serve()
	require.NoError(t, l.Check())
	require.NoError(t, l.Enter())
	require.NoError(t, l.Enter())
	drained := l.Drain()
	require.ErrorIs(t, l.Enter(), ErrDraining)
	require.ErrorIs(t, l.Check(), ErrDraining)
	l.Serve()
	require.ErrorIs(t, l.Check(), ErrDraining, "there is no way back")
	l.Leave()
	require.False(t, over(drained))
	require.Zero(t, ends)
	l.Leave()
	require.True(t, over(drained))
	require.True(t, over(l.Drain()), "again")
	require.Equal(t, 1, ends)
}

func TestIdleDrainEndsAtOnce(t *testing.T) {
	for _, serve := range []bool{false, true} {
		l := New(leased, func() {})
		if serve {
			l.Serve()
		}
		require.True(t, over(l.Drain()))
	}
}

func TestDrainWaitsForExactlyWhatHasBegun(t *testing.T) {
	var working atomic.Int64
	l := New(leased, func() { require.Zero(t, working.Load()) })
	l.Serve()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for l.Enter() == nil {
				working.Add(1)
				working.Add(-1)
				l.Leave()
			}
		})
	}
	<-l.Drain()
	wait.Wait()
	require.Zero(t, working.Load())
}
