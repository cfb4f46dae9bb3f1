package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Networks are the distributions over the next byte that are mixed with the counts: natural
// logarithms of probabilities [256], of as many networks as the settings say; the rest is nil.
type Networks [networksMax][]float32

// Scratch is what computing with states needs beside them. It serves any state, one at a time, and
// leaves nothing of one in another. It allocates nothing once it is warm.
type Scratch struct {
	vectors kernel.Vectors
	look    look
	known   change // what was scored since Begin

	// Of the byte that is scored: its nodes, their inputs [8][inputCount], and the weights of the
	// nodes, side by side.
	nodes   [8]scored
	path    [8 * inputCount]float32
	weights [8 * inputCount]float32
	slope   slope
	moved   moved

	// Of all nodes, by their numbers: the inputs, the logits by each set, and see Distribution.
	inputs [256 * inputCount]float32
	logits [setCount][256]float32
	ones   [256]float32
	zeros  [256]float32
}

// Slopes are derivatives of a byte's loss, its negative log-likelihood in nats, by the first
// network's logit at each of the byte's nodes.
type Slopes [8]float32

// scored is a node on the way to a byte that is scored.
type scored struct {
	met     [contextCount]uint8
	node    int
	bit     float32
	sets    [setCount]float32 // probabilities of a 1
	refined refined
}

// ScratchBytes is the memory of a scratch that pieces of so many bytes were scored with, at most.
func ScratchBytes(piece int) int64 {
	const (
		places = 4 * (2*contextCount + 1 + 1 + matchCount)
		held   = 2*contextCount*bucketBytes + 1 + 4*(1+matchCount)
		pages  = setCount - 1 + 8 + 2*8*(contextCount+matchCount) + 8 // the nodes' rows are eight
		// of a slice that is appended to
		growth = 2
		fixed  = 1<<16 + 4*pageCount
	)
	return fixed + growth*int64(piece)*(places+held+pages*(4+4*pageFloats))
}

// NewScratch returns a scratch that computes by a set of instructions; all give the same bits.
func NewScratch(v kernel.Vectors) *Scratch { return &Scratch{vectors: v} }

// Begin begins a piece of text, which Back can take back.
func (x *Scratch) Begin(s *State) { x.known.begin(s) }

// Back takes the state back to where it was when the piece began, and Forth undoes that. Nothing
// else may have happened to the state, or to the scratch, between the calls.
func (x *Scratch) Back(s *State)  { x.known.back(s) }
func (x *Scratch) Forth(s *State) { x.known.forth(s) }

// Mark returns the place in the piece that the state has come to.
func (x *Scratch) Mark(s *State) Mark { return x.known.mark(s) }

// Drop takes the state back to a place in the piece, which then ends there. It may also be another
// state that is equal to the one that has come to the end of the piece.
func (x *Scratch) Drop(s *State, to Mark) { x.known.drop(s, to) }

// prepare looks at the next byte.
func (x *Scratch) prepare(s *State, of Networks) {
	x.look.at(s)
	x.look.of = s.settings.Networks
	for i := range x.look.of {
		x.look.trees[i].set(x.vectors, of[i])
	}
}
