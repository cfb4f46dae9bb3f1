package session

import (
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/txl"
)

// frozenBase is the step that the first frozen stream begins at, frozenSteps how far the next one begins behind it. A worker knows whose rows
// its segments hold by stream and step, and a frozen stream passes for the stream it was copied from: its steps must be those of no other.
const (
	frozenBase  = 1 << 63
	frozenSteps = 1 << 32
)

var frozenCount atomic.Uint64

// freeze copies a stream so that it reads on without adapting: it sees the stream's fast weights, which must not change meanwhile, and has a
// memory and a pending chunk of its own.
func freeze(s *stream.Stream, c txl.Config) *stream.Stream {
	f := *s
	f.Settings.Method, f.Settings.Baseline = stream.Static, false
	f.Fast = nil // nothing is written; the copy goes on to add the fast weights to the slow ones
	f.BaselineMemory = nil
	f.Pending = append(make([]int32, 0, f.Settings.Chunk), f.Pending...)
	f.Memory = txl.NewMemory(c, 1)
	f.Memory.CopyFrom(s.Memory)
	f.Step = frozenBase + frozenSteps*frozenCount.Add(1)
	return &f
}
