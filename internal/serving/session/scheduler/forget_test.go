package scheduler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

// When a model leaves memory, its idle workers end, also in slots that now serve other models. A
// worker that a job still uses ends after the job.
func TestWorkersOfForgottenModelEnd(t *testing.T) {
	sc := newTestScheduler(t, 3)
	m, err := modeltest.New(9)
	require.NoError(t, err)
	live := true
	sc.Live = func(*model.Model) bool { return live }
	on := func(session string) Job { return Job{Session: session, Chunk: 16, Model: m} }
	rests, moves, held := mustAcquire(t, sc, on("a")), mustAcquire(t, sc, on("b")),
		mustAcquire(t, sc, on("c"))
	sc.release(moves)
	require.Same(t, moves, mustAcquire(t, sc, Job{Session: "d", Chunk: 16}))
	sc.release(rests)
	live = false
	sc.Forget(m)
	require.Empty(t, rests.of)
	require.NotContains(t, moves.of, m)
	require.NotNil(t, moves.worker, "it is at work on another model")
	require.NotNil(t, held.worker)
	sc.release(held)
	require.Empty(t, held.of)
	require.Nil(t, held.worker)
	sc.release(moves)
	live = true
	again := mustAcquire(t, sc, on("e"))
	require.NotNil(t, again.worker)
	sc.release(again)
}
