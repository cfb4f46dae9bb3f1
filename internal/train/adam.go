package train

import (
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// adamBlock is the number of elements that one task of Adam handles. The gradient's norm is summed block by block in this size, so that it
// does not depend on the number of threads.
const adamBlock = 1 << 14

// Adam is the optimiser of Kingma and Ba over one flat arena of float32, with bias-corrected moments and clipping of the gradient's global
// norm. Its whole state is M, V and Steps. The zero learning rate leaves the weights as they are but moves the moments.
type Adam struct {
	Beta1, Beta2, Eps float64
	Clip              float64 // largest norm of the whole gradient; 0: no clipping

	M, V  []float32 // first and second moments, one element a weight
	Steps int       // made so far

	squares []float64 // of the gradient, summed over each block
	norms   normTask
	update  updateTask
}

// NewAdam returns an optimiser for size weights with zero moments.
func NewAdam(size int, beta1, beta2, eps, clip float64) *Adam {
	return &Adam{
		Beta1: beta1, Beta2: beta2, Eps: eps, Clip: clip,
		M: make([]float32, size), V: make([]float32, size),
		squares: make([]float64, adamBlocks(size)),
	}
}

func adamBlocks(size int) int { return (size + adamBlock - 1) / adamBlock }

// Step moves the weights w against the gradient g with the given learning rate and returns the gradient's norm before clipping. If the norm
// is not a finite number, nothing is changed and the caller must give up.
func (a *Adam) Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64) {
	norm = gradientNorm(x, &a.norms, a.squares, g)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	a.Steps++
	u := &a.update
	*u = updateTask{w: w, m: a.M, v: a.V, g: g}
	u.Adam = kernel.Adam{Scale: 1, Beta1: float32(a.Beta1), Beta2: float32(a.Beta2), Eps: float32(a.Eps)}
	if a.Clip > 0 && norm > a.Clip {
		u.Scale = float32(a.Clip / norm)
	}
	t := float64(a.Steps)
	u.Rate = float32(rate / (1 - math.Pow(a.Beta1, t)))
	u.Root = float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t)))
	x.Parallel(len(a.squares), u)
	return norm
}

// gradientNorm is the norm of g, summed block by block: squares has an element a block.
func gradientNorm(x *kernel.Exec, t *normTask, squares []float64, g []float32) float64 {
	*t = normTask{g: g, squares: squares}
	x.Parallel(len(squares), t)
	sum := 0.0
	for _, s := range squares {
		sum += s
	}
	return math.Sqrt(sum)
}

// normTask sums the squares of a gradient block by block.
type normTask struct {
	g       []float32
	squares []float64
}

// Do sums block i.
func (t *normTask) Do(_ *kernel.Exec, i int) {
	sum := 0.0
	for _, v := range t.g[i*adamBlock : min((i+1)*adamBlock, len(t.g))] {
		sum += float64(float64(v) * float64(v))
	}
	t.squares[i] = sum
}

// updateTask makes one step of Adam block by block.
type updateTask struct {
	kernel.Adam
	w, m, v, g []float32
}

// Do updates block i.
func (t *updateTask) Do(w *kernel.Exec, i int) {
	lo, hi := i*adamBlock, min((i+1)*adamBlock, len(t.w))
	w.Adam(&t.Adam, t.w[lo:hi], t.m[lo:hi], t.v[lo:hi], t.g[lo:hi])
}

func (a *Adam) moments() []array { return []array{{"adam.m", a.M}, {"adam.v", a.V}} }
func (a *Adam) setSteps(n int)   { a.Steps = n }
