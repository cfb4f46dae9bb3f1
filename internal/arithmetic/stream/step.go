package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Step computes one chunk of a stream: losses, gradient, and the update of the fast weights.
// Its methods are the phases, called in this order:
//
//	Begin or Continue  starts a chunk with the weights W + M and the memory of earlier text
//	Score              computes the losses of the chunk's tokens
//	Backward           computes the gradient G of the mean loss, or of the loss in Logits
//	Update             computes I and M from G by eqs. 3 to 6 of Sparse Meta Networks
//	Remember           appends the chunk to the memory
//
// No phase calls another, so callers can work between two phases. For example, a server writes its
// log between Score and Backward. Remember may be called at any time after Score.
//
// A Step refers to arrays of the caller and owns none. No phase allocates memory.
type Step struct {
	Exec    *kernel.Exec
	Network *txl.Model // the slow weights W
	Segment *txl.Segment
	Memory  *txl.Memory

	Fast  Arena // fast weights M, summed over the banks; the zero Arena means a static model
	Grads Arena // receives the gradient G of the weights that have fast weights
	All   Arena // receives the gradient G of all weights; the zero Arena receives nothing
	// Logits are the derivatives [n,B,V] of each target's loss with respect to the logits. Backward
	// uses the mean of these losses. If Logits is nil, the losses are the negative log-likelihoods.
	Logits []float32

	State *sparsemeta.State // gradient averages I and fast weights M; used only by Update
	Rule
}

// Rule says how fast weights are stored and updated. A server, a training run and a conformance
// test have different Rules.
type Rule struct {
	Learner   *sparsemeta.Learner
	Tables    sparsemeta.Tables
	Settings  sparsemeta.Settings
	Precision kernel.Precision // ServingPrecision or TrainingPrecision
	Trace     bool             // whether to record the input of each element's last write
	Masks     [][]uint8        // for each bank, the elements to write; nil means random elements
}

// These are the precisions of the gradient averages I and the fast weights M. A server has many
// sessions, so it stores 16 bits per element, with stochastic rounding. Training and conformance
// tests differentiate or compare a single state, so they store float32. All arithmetic is in
// float32.
const (
	ServingPrecision  = kernel.BF16
	TrainingPrecision = kernel.Float32
)

// NewState returns the state of a new stream: all fast weights are zero. The seed determines which
// elements each update writes.
func (r *Rule) NewState(seed uint64) *sparsemeta.State {
	s := sparsemeta.NewState(r.Learner.Branches, len(r.Settings.Gammas), seed, r.Precision)
	if r.Trace {
		s.Trace()
	}
	return s
}

// Begin starts a chunk that follows the text in Memory.
func (s *Step) Begin() { s.Segment.Begin(s.Exec, s.Network, s.Fast.Views, s.Memory) }

// Continue starts the chunk that follows the segment's current chunk. The results are bit-identical
// to those of Remember and then Begin. The network and the arrays of the fast weights must be those
// of Begin.
func (s *Step) Continue() { s.Segment.Continue(s.Exec) }

// Score appends the inputs [n,B] to the chunk. It writes the negative log-likelihoods of the
// chunk's last targets [k,B], in nats, to nll. A chunk may be scored in pieces.
func (s *Step) Score(inputs, targets []int32, nll []float32) {
	s.Segment.Extend(s.Exec, inputs)
	s.Segment.NLL(s.Segment.Len()-len(targets)/s.Segment.B, targets, nll)
}

// Backward writes the gradient of the chunk's mean loss at the weights W + M to Grads. It also
// writes the gradient of all weights to All, unless All is the zero Arena. The array targets [n,B]
// contains the targets of the whole chunk.
func (s *Step) Backward(targets []int32) {
	if s.All.Values == nil {
		s.backward(targets, s.Grads.Views)
		return
	}
	s.backward(targets, s.All.Views)
	for i, branch := range s.Grads.Views { // M is added to W, so dL/dM is dL/dW
		copy(branch, s.All.Views[i])
	}
}

func (s *Step) backward(targets []int32, grads txl.Grads) {
	if s.Logits == nil {
		s.Segment.Backward(s.Exec, targets, grads)
		return
	}
	s.Segment.BackwardOf(s.Exec, targets, s.Logits, grads)
}

// Update computes the fast weights from the chunk's gradient. It returns the number of elements
// written, summed over all banks.
func (s *Step) Update() (written int) {
	g, fast := s.Grads.Values, s.Fast.Values
	if s.Masks != nil {
		return s.State.UpdateMasked(s.Exec, s.Tables, s.Settings, s.Learner.Scale, g, fast, s.Masks)
	}
	return s.State.Update(s.Exec, s.Tables, s.Settings, s.Learner.Scale, g, fast)
}

// Remember appends the chunk to the memory.
func (s *Step) Remember() { s.Segment.Remember(s.Memory) }

// Arena contains one number for each element of some or all of a model's weights. All numbers are
// in one array.
type Arena struct {
	Values []float32
	// Views has one entry for each tensor of the layout: the tensor's slice of Values, or nil if
	// the arena lacks the tensor. The package txl takes fast weights and returns gradients in this
	// form.
	Views [][]float32
}

// NewArena returns an arena of zeros for the weights that have fast weights.
func NewArena(m *model.Model) Arena {
	values := kernel.NewLarge(m.ArenaSize())
	return Arena{values, m.Views(values)}
}

// NewArenaOfAll returns an arena of zeros for all weights of the layout.
func NewArenaOfAll(l *txl.Layout) Arena { return arenaOfAll(l, kernel.NewLarge(l.Size)) }

func arenaOfAll(l *txl.Layout, values []float32) Arena { return Arena{values, l.Slices(values)} }
