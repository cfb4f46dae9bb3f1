package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Networks holds each network's distribution over the next byte. The companion mixes these
// distributions with its own counts. Each distribution consists of 256 natural logarithms of
// probabilities. The first Settings.Networks elements are set; the others are nil.
type Networks [networksMax][]float32

// Scratch is the working memory for computations on states. A Scratch serves one state at a time,
// and carries nothing from one state to another. After warm-up, a Scratch allocates no memory.
type Scratch struct {
	vectors kernel.Vectors
	look    look
	known   change

	// Data of the last scored byte: its eight nodes, and their inputs and weights, each of shape
	// [8][inputCount].
	nodes   [8]scored
	path    [8 * inputCount]float32
	weights [8 * inputCount]float32
	slope   slope
	moved   moved

	// Data for Distribution, by node number: the inputs, the logits of each set, and the
	// probabilities.
	inputs [256 * inputCount]float32
	logits [setCount][256]float32
	ones   [256]float32
	zeros  [256]float32
}

// Slopes are the derivatives of a byte's loss with respect to the first network's logit at each of
// the byte's eight nodes. The loss is the negative log-likelihood in nats.
type Slopes [8]float32

// scored is a tree node that codes one bit of a scored byte.
type scored struct {
	met     [contextCount]uint8
	node    int
	bit     float32
	sets    [setCount]float32
	refined refined
}

// ScratchBytes returns the maximum memory, in bytes, of a Scratch for pieces of at most `piece`
// bytes.
func ScratchBytes(piece int) int64 {
	const (
		places = 4 * (2*contextCount + 1 + 1 + matchCount)
		held   = 2*contextCount*bucketBytes + 1 + 4*(1+matchCount)
		// setNode uses eight rows per byte
		pages = setCount - 1 + 8 + 2*8*(contextCount+matchCount) + 8
		// append may double the capacity of a slice
		growth = 2
		fixed  = 1<<16 + 4*pageCount
	)
	return fixed + growth*int64(piece)*(places+held+pages*(4+4*pageFloats))
}

// NewScratch returns a Scratch that computes with the vector functions v. All instruction sets give
// bit-identical results.
func NewScratch(v kernel.Vectors) *Scratch { return &Scratch{vectors: v} }

// Begin starts a piece of text. Back can undo the piece.
func (x *Scratch) Begin(s *State) { x.known.begin(s) }

// Back restores the state at the beginning of the piece that Begin started, and Forth undoes Back.
// Between the two calls, the state must not change and the Scratch must not be used. Otherwise the
// undo journal no longer matches the state.
func (x *Scratch) Back(s *State)  { x.known.back(s) }
func (x *Scratch) Forth(s *State) { x.known.forth(s) }

// Mark returns the current position in the piece of text, to which Drop can return.
func (x *Scratch) Mark(s *State) Mark { return x.known.mark(s) }

// Drop restores the state at a position of the text since Begin, and forgets the changes after that
// position. The caller may pass an equal copy of the state.
func (x *Scratch) Drop(s *State, to Mark) { x.known.drop(s, to) }

func (x *Scratch) prepare(s *State, of Networks) {
	x.look.at(s)
	x.look.of = s.settings.Networks
	for i := range x.look.of {
		x.look.trees[i].set(x.vectors, of[i])
	}
}
