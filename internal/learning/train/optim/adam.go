package optim

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Constants of Adam for the weights of a network.
const (
	Beta1   = 0.9
	Beta2   = 0.999
	Epsilon = 1e-8
)

// Adam is the optimizer of Kingma and Ba (2015), with clipping of the gradient's norm. All weights
// are in one slice of float32. M, V and Steps are the whole state. With a learning rate of zero,
// Step changes the moments but not the weights.
type Adam struct {
	Beta1, Beta2, Eps float64
	Clip              float64 // largest norm of the whole gradient; 0 means no clipping

	M, V  []float32 // first and second moments, one element for each weight
	Steps int

	norm   norm
	update updateTask
}

// NewAdam returns an optimizer for size weights with zero moments.
func NewAdam(size int, beta1, beta2, eps, clip float64) *Adam {
	return &Adam{
		Beta1: beta1, Beta2: beta2, Eps: eps, Clip: clip,
		M: make([]float32, size), V: make([]float32, size),
		norm: newNorm(size),
	}
}

// Step moves the weights w against the gradient g with a learning rate; see Optimizer.
func (a *Adam) Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64) {
	if norm = a.norm.of(x, g); !Finite(norm) {
		return norm
	}
	a.Steps++
	u := &a.update
	*u = updateTask{w: w, m: a.M, v: a.V, g: g}
	u.Adam = kernel.Adam{Scale: 1, Beta1: float32(a.Beta1), Beta2: float32(a.Beta2),
		Eps: float32(a.Eps)}
	if a.Clip > 0 && norm > a.Clip {
		u.Scale = float32(a.Clip / norm)
	}
	t := float64(a.Steps)
	u.Rate = float32(rate / (1 - math.Pow(a.Beta1, t)))
	u.Root = float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t)))
	x.Parallel(blocks(len(w)), u)
	return norm
}

type updateTask struct {
	kernel.Adam
	w, m, v, g []float32
}

// Do updates the weights and moments of block i.
func (t *updateTask) Do(w *kernel.Exec, i int) {
	lo, hi := i*block, min((i+1)*block, len(t.w))
	w.Adam(&t.Adam, t.w[lo:hi], t.m[lo:hi], t.v[lo:hi], t.g[lo:hi])
}

// Moments returns M and V.
func (a *Adam) Moments() []Moment { return []Moment{{"adam.m", a.M}, {"adam.v", a.V}} }

// SetSteps sets the number of steps that have been made.
func (a *Adam) SetSteps(n int) { a.Steps = n }
