// Package optim contains optimizers of a network's weights, Adam and Muon, and schedules of the
// learning rate. The package depends on the arrays and the layout of the weights, but not on the
// network's computation.
//
// Results do not depend on the number of threads. With restored moments and steps, an optimizer
// continues with bit-identical results.
package optim

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Optimizer updates the weights of a network.
type Optimizer interface {
	// Step moves the weights w against the gradient g with a learning rate, and returns the norm of
	// the whole gradient before clipping. If the norm is not finite, Step changes nothing and the
	// caller must stop.
	Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64)
	// Moments returns the optimizer's whole state except the number of steps.
	Moments() []Moment
	// SetSteps sets the number of steps that the optimizer has made.
	SetSteps(n int)
}

// Moment is an array that an optimizer keeps from step to step. Name is the array's name in
// checkpoints.
type Moment struct {
	Name   string
	Values []float32
}

// Finite reports whether v is neither infinite nor NaN.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// block is the number of elements that one task handles. Sums are taken block by block, so that
// they do not depend on the number of threads.
const block = 1 << 14

func blocks(size int) int { return (size + block - 1) / block }

type norm struct {
	g       []float32
	squares []float64
}

func newNorm(size int) norm { return norm{squares: make([]float64, blocks(size))} }

// of returns the Euclidean norm of a gradient.
func (n *norm) of(x *kernel.Exec, g []float32) float64 {
	n.g = g
	x.Parallel(len(n.squares), n)
	sum := 0.0
	for _, s := range n.squares {
		sum += s
	}
	return math.Sqrt(sum)
}

// Do sums the squares of block i.
func (n *norm) Do(_ *kernel.Exec, i int) {
	sum := 0.0
	for _, v := range n.g[i*block : min((i+1)*block, len(n.g))] {
		sum += float64(float64(v) * float64(v))
	}
	n.squares[i] = sum
}

// Mean averages the gradients of several chunks, with equal weights.
type Mean struct {
	Sum    []float32
	Factor float32 // 1 / the number of chunks

	g []float32
}

// Add adds Factor*g to Sum. The gradient g must have Sum's length.
func (m *Mean) Add(x *kernel.Exec, g []float32) {
	m.g = g
	x.Parallel(blocks(len(g)), m)
}

// Do adds block i of the gradient to Sum.
func (m *Mean) Do(w *kernel.Exec, i int) {
	lo, hi := i*block, min((i+1)*block, len(m.g))
	w.Axpy(m.Sum[lo:hi], m.Factor, m.g[lo:hi])
}
