package stream

import (
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Step is one step of an adaptive stream over a chunk of text. Its methods are the phases, in
// this order:
//
//	Begin or Continue  the network at the weights W + M and the memory before the chunk
//	Score              the losses of the chunk's tokens
//	Backward           the gradient G of the mean loss, or of another loss, see Logits
//	Update             I and M from G, eqs. 3 to 6 of the paper
//	Remember           the memory that the next chunk attends to
//
// No phase calls another, so callers can work between two phases. A server writes its log between
// Score and Backward. Training takes meta-gradients between Backward and Update. A benchmark reads
// its clock after each phase, and a conformance test compares numbers. Remember may come at any
// time after Score.
//
// A Step owns no arrays; it refers to those of its caller. No phase allocates memory.
type Step struct {
	Exec    *kernel.Exec
	Network *txl.Model   // the slow weights W
	Segment *txl.Segment // the activations
	Memory  *txl.Memory

	Fast  Arena // M, summed over the banks; the zero Arena means a static network
	Grads Arena // receives G for the branches, the weights that have fast weights
	All   Arena // receives G for all weights; the zero Arena means only the branches
	// Logits are the derivatives [n,B,V] of the targets' losses with respect to the logits. nil
	// means that Backward uses the network's own losses.
	Logits []float32

	State *sparsemeta.State // I and M of each bank; only Update uses it
	Rule
}

// Rule says how fast weights are stored and written. A server, a training run and a replay of
// reference numbers each have their own Rule.
type Rule struct {
	Learner   *sparsemeta.Learner
	Tables    sparsemeta.Tables   // the meta-learners, compiled from Learner
	Settings  sparsemeta.Settings // settings of the update
	Precision kernel.Precision    // precision of I and M: ServingPrecision or TrainingPrecision
	Trace     bool                // keep, for each element, the input of its last write
	Masks     [][]uint8           // elements to write, an arena for each bank; nil if random
}

// Precisions of I and M. A server has many sessions, so it stores 16 bits per element, with
// stochastic rounding. Training and conformance tests have one state, which they differentiate or
// compare, so they store float32. All arithmetic is in float32.
const (
	ServingPrecision  = kernel.BF16
	TrainingPrecision = kernel.Float32
)

// NewState returns the fast weights of a new stream, all zero. The seed determines the masks.
func (r *Rule) NewState(seed uint64) *sparsemeta.State {
	s := sparsemeta.NewState(r.Learner.Branches, len(r.Settings.Gammas), seed, r.Precision)
	if r.Trace {
		s.Trace()
	}
	return s
}

// Begin starts a chunk that follows the text in the memory.
func (s *Step) Begin() { s.Segment.Begin(s.Exec, s.Network, s.Fast.Views, s.Memory) }

// Continue starts the chunk that follows the chunk in the segment. The results are bit-identical to
// the results after Remember and Begin. The segment's network and fast weights must stay the same
// arrays.
func (s *Step) Continue() { s.Segment.Continue(s.Exec) }

// Score appends the inputs [n,B] to the chunk. It writes the negative log-likelihoods, in nats,
// of the chunk's last targets [k,B] to nll. A chunk may be scored in pieces.
func (s *Step) Score(inputs, targets []int32, nll []float32) {
	s.Segment.Extend(s.Exec, inputs)
	s.Segment.NLL(s.Segment.Len()-len(targets)/s.Segment.B, targets, nll)
}

// Backward sets Grads, and All unless it is the zero Arena, to the gradient of the chunk's mean
// loss at W + M. targets [n,B] are the targets of the whole chunk.
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

// Update writes the fast weights from the chunk's gradient. It returns the number of elements that
// it has written, summed over all banks.
func (s *Step) Update() (written int) {
	g, fast := s.Grads.Values, s.Fast.Values
	if s.Masks != nil {
		return s.State.UpdateMasked(s.Exec, s.Tables, s.Settings, s.Learner.Scale, g, fast, s.Masks)
	}
	return s.State.Update(s.Exec, s.Tables, s.Settings, s.Learner.Scale, g, fast)
}

// Remember appends the chunk to the memory.
func (s *Step) Remember() { s.Segment.Remember(s.Memory) }

// Arena contains one number for each element of some of a model's weights, in one array.
type Arena struct {
	Values []float32
	// Views has one element for each tensor of the layout: its slice of Values, or nil if the
	// tensor is not in the arena. txl takes fast weights and returns gradients in this form.
	Views [][]float32
}

// NewArena returns an arena of zeros for the branches of the model's meta-learners.
func NewArena(m *model.Model) Arena {
	values := kernel.NewLarge(m.ArenaSize())
	return Arena{values, m.Views(values)}
}

// NewArenaOfAll returns an arena of zeros for all weights.
func NewArenaOfAll(l *txl.Layout) Arena { return arenaOfAll(l, kernel.NewLarge(l.Size)) }

func arenaOfAll(l *txl.Layout, values []float32) Arena { return Arena{values, l.Slices(values)} }
