package optim

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// block is the number of elements that one task handles. Sums are taken block by block, so that
// they do not depend on the number of threads.
const block = 1 << 14

func blocks(size int) int { return (size + block - 1) / block }

type norm struct {
	g       []float32
	squares []float64 // sums of the squares of g, one a block
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

// Mean adds up the gradients of several chunks, each by the same factor.
type Mean struct {
	Sum    []float32
	Factor float32 // 1 / the number of chunks

	g []float32
}

// Add adds Factor times a gradient of Sum's length to Sum.
func (m *Mean) Add(x *kernel.Exec, g []float32) {
	m.g = g
	x.Parallel(blocks(len(g)), m)
}

// Do adds block i.
func (m *Mean) Do(w *kernel.Exec, i int) {
	lo, hi := i*block, min((i+1)*block, len(m.g))
	w.Axpy(m.Sum[lo:hi], m.Factor, m.g[lo:hi])
}
