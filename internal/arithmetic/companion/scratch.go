package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Networks are the networks' distributions over the next byte, to be mixed with the counts. Each
// has the natural logarithms of 256 probabilities. The first Settings.Networks are set; the rest is
// nil.
type Networks [networksMax][]float32

// Scratch is the working memory to compute with states. It serves any state, one at a time, and
// leaks nothing between states. A warm Scratch allocates nothing.
type Scratch struct {
	vectors kernel.Vectors
	look    look
	known   change // changes of the state since Begin

	// For the scored byte: its nodes, their inputs [8][inputCount], and the weights of the nodes.
	nodes   [8]scored
	path    [8 * inputCount]float32
	weights [8 * inputCount]float32
	slope   slope
	moved   moved

	// For all nodes, by number: the inputs, the logits of each set, and the probabilities of
	// Distribution.
	inputs [256 * inputCount]float32
	logits [setCount][256]float32
	ones   [256]float32
	zeros  [256]float32
}

// Slopes are derivatives of a byte's loss with respect to the first network's logit at each of
// the byte's nodes. The loss is the negative log-likelihood in nats.
type Slopes [8]float32

// scored is a node on the way to a scored byte.
type scored struct {
	met     [contextCount]uint8
	node    int
	bit     float32
	sets    [setCount]float32 // probabilities of a 1 according to each set of weights
	refined refined
}

// ScratchBytes returns the maximum bytes of memory that a scratch uses for pieces of at most
// `piece` bytes.
func ScratchBytes(piece int) int64 {
	const (
		places = 4 * (2*contextCount + 1 + 1 + matchCount)
		held   = 2*contextCount*bucketBytes + 1 + 4*(1+matchCount)
		pages  = setCount - 1 + 8 + 2*8*(contextCount+matchCount) + 8 // setNode has eight rows
		// append may double the capacity of a slice
		growth = 2
		fixed  = 1<<16 + 4*pageCount
	)
	return fixed + growth*int64(piece)*(places+held+pages*(4+4*pageFloats))
}

// NewScratch returns a scratch that computes with v. All instruction sets give the same bits.
func NewScratch(v kernel.Vectors) *Scratch { return &Scratch{vectors: v} }

// Begin starts a piece of text, which Back can undo.
func (x *Scratch) Begin(s *State) { x.known.begin(s) }

// Back restores the state to the beginning of the piece, and Forth undoes Back. The state must not
// change between the two calls, and the scratch must not be used for anything else.
func (x *Scratch) Back(s *State)  { x.known.back(s) }
func (x *Scratch) Forth(s *State) { x.known.forth(s) }

// Mark returns the state's present position in the piece.
func (x *Scratch) Mark(s *State) Mark { return x.known.mark(s) }

// Drop restores the state to a position in the piece. The piece then ends there. The state may also
// be another one, equal to the state at the end of the piece.
func (x *Scratch) Drop(s *State, to Mark) { x.known.drop(s, to) }

// prepare sets up the look at the next byte.
func (x *Scratch) prepare(s *State, of Networks) {
	x.look.at(s)
	x.look.of = s.settings.Networks
	for i := range x.look.of {
		x.look.trees[i].set(x.vectors, of[i])
	}
}
