// Package stream is one adaptive stream of text: the loop
//
//	score a chunk -> backward -> update of the fast weights
//
// over the model's parts, txl and sparsemeta, which do not know each other. A
// Stream is the state, a Worker the working space and threads that advance it.
// Neither knows about concurrency, order between requests, or storage.
package stream

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Methods of adaptation.
const (
	Static     = "static"
	SparseMeta = "sparse-meta"
)

// MaxChunk is the largest number of tokens between two updates: a worker's
// activations grow with it.
const MaxChunk = 1024

// Settings say how a stream adapts.
type Settings struct {
	Method   string // Static or SparseMeta
	Chunk    int    // tokens between two updates
	Adapt    sparsemeta.Settings
	Baseline bool // also score with the static model
	Seed     uint64
}

// Defaults are the settings the model's meta-learners were trained for.
func Defaults(m *model.Model) Settings {
	s := Settings{Method: Static, Chunk: m.Chunk}
	if m.Learner != nil {
		s.Method, s.Adapt = SparseMeta, m.Learner.Settings
	}
	return s
}

// Validate reports the first setting that does not fit the model.
func (s Settings) Validate(m *model.Model) error {
	switch {
	case s.Method != Static && s.Method != SparseMeta:
		return fmt.Errorf("method is %q, expected %s or %s", s.Method, SparseMeta, Static)
	case s.Chunk < 1 || s.Chunk > MaxChunk:
		return fmt.Errorf("chunk is %d, expected 1 to %d", s.Chunk, MaxChunk)
	case s.Method == Static:
		return nil
	case m.Learner == nil:
		return fmt.Errorf("method is %s, but model %s has no meta-learners, expected %s", SparseMeta, m.Name, Static)
	}
	return m.Learner.Accept(s.Adapt)
}

// Stream is the state a text has left behind: a function of the model, the
// settings and the bytes fed, and of nothing else. It is plain data.
//
// Chunk t holds the bytes [t*Chunk, (t+1)*Chunk) as targets; the token before
// each is its input, and the first byte of all is predicted after the
// tokenizer's start token. Every byte is scored.
type Stream struct {
	Settings Settings
	Tally    tokenizer.Tally // of everything accepted
	Baseline tokenizer.Tally // the same under the static model, if Settings.Baseline
	Step     uint64          // full chunks so far
	Written  int             // fast-weight entries the last update wrote
	Pending  []int32         // targets of the chunk that is not full yet
	Last     int32           // the token before the pending ones

	Memory         *txl.Memory
	BaselineMemory *txl.Memory       // nil without a baseline
	Fast           *sparsemeta.State // nil for the static method

	model *model.Model
	views txl.Fast // of Fast.Sum
	id    uint64   // tells streams apart in workers
}

// New returns the stream of an empty text. The settings must be valid.
func New(m *model.Model, set Settings) *Stream {
	s := &Stream{Settings: set, model: m, Last: m.Tokenizer.Start(), id: nextID.Add(1)}
	s.Memory = txl.NewMemory(m.LM.Config, 1)
	s.Pending = make([]int32, 0, set.Chunk)
	if set.Baseline {
		s.BaselineMemory = txl.NewMemory(m.LM.Config, 1)
	}
	if set.Method == SparseMeta {
		s.Fast = sparsemeta.NewState(m.Learner.Branches, len(set.Adapt.Gammas), set.Seed)
		s.views = m.Views(s.Fast.Sum)
	}
	return s
}

// Frozen returns a copy that reads on without adapting: it has s's fast weights,
// by reference, so s must not settle a chunk while the copy is in use, and a
// memory and a pending chunk of its own. Nothing that happens to the copy
// changes s.
func (s *Stream) Frozen() *Stream {
	f := *s
	f.id = nextID.Add(1)
	f.Settings.Method, f.Settings.Baseline = Static, false
	f.Fast, f.BaselineMemory = nil, nil // views go on adding the fast weights to the slow ones
	f.Pending = append(make([]int32, 0, f.Settings.Chunk), f.Pending...)
	f.Memory = txl.NewMemory(s.model.LM.Config, 1)
	f.Memory.CopyFrom(s.Memory)
	return &f
}

// Room is how many more bytes the current chunk takes: at least 1.
func (s *Stream) Room() int { return s.Settings.Chunk - len(s.Pending) }

// FastRMS is the root mean square of the fast weights, 0 for the static method.
func (s *Stream) FastRMS() float64 {
	if s.Fast == nil || len(s.Fast.Sum) == 0 {
		return 0
	}
	const block = 4096 // short enough for a sum in float32
	var sum float64
	for lo := 0; lo < len(s.Fast.Sum); lo += block {
		m := s.Fast.Sum[lo:min(lo+block, len(s.Fast.Sum))]
		sum += float64(kernel.Dot(m, m))
	}
	return math.Sqrt(sum / float64(len(s.Fast.Sum)))
}

// MemoryBytes is what the stream occupies.
func (s *Stream) MemoryBytes() int64 {
	n := len(s.Pending)
	for _, mem := range []*txl.Memory{s.Memory, s.BaselineMemory} {
		if mem != nil {
			for _, l := range mem.Layers {
				n += len(l)
			}
		}
	}
	if s.Fast != nil {
		n += len(s.Fast.Sum)
		for b := range s.Fast.I {
			n += len(s.Fast.I[b])
			if len(s.Fast.I) > 1 { // one bank's M is Sum itself
				n += len(s.Fast.M[b])
			}
		}
	}
	return 4 * int64(n)
}
