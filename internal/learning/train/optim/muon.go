package optim

import (
	"math"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
)

// Muon's constants. The constants muonRounds and muonA to muonC belong to the iteration that makes
// a matrix orthogonal. muonRMS is the root mean square of an update's elements. Adam's updates have
// about the same root mean square, so that one learning rate serves both optimizers.
const (
	muonMomentum = 0.95
	muonRounds   = 5
	muonA        = 3.4445
	muonB        = -4.7750
	muonC        = 2.0315
	muonRMS      = 0.2
)

// Muon is the optimizer of Jordan et al. (2024) for the matrices of the layers. A step is along the
// semi-orthogonal matrix nearest to the gradient's Nesterov momentum, so that all singular
// directions move equally. A Newton-Schulz iteration approximates this matrix. Adam updates the
// embeddings, the softmax, biases and gains, with the same learning rate.
type Muon struct {
	M []float32 // momentum of the matrices, in the layout of the weights

	parts []matrixPart
	rest  []txl.Tensor
	adam  *Adam
	w, g  []float32 // weights and gradients of the tensors in the field rest, concatenated
	x, y  []float32 // scratch for the largest part, [rows, cols]
	a, b  []float32 // scratch [side, side]; side is the largest min(rows, cols) of the parts
	norm  norm
}

// matrixPart is the part of a weight tensor that is one linear map. The tensor qkv_net has three
// parts: queries, keys and values.
type matrixPart struct{ off, rows, cols int }

// NewMuon returns an optimizer with zero moments for the weights of a layout. The parameter clip
// limits the norm of the gradient of the weights that Adam updates; 0 means no limit.
func NewMuon(l *txl.Layout, clip float64) *Muon {
	o := &Muon{M: make([]float32, l.Size), norm: newNorm(l.Size)}
	size, side, rest := 0, 0, 0
	for _, t := range l.Tensors {
		if !t.IsMatrix() || ofVocabulary(t) {
			o.rest = append(o.rest, t)
			rest += t.Size
			continue
		}
		n := 1
		if strings.HasSuffix(t.Name, "qkv_net.weight") {
			n = 3
		}
		p := matrixPart{rows: t.Shape[0] / n, cols: t.Shape[1]}
		for i := range n {
			p.off = t.Off + i*p.rows*p.cols
			o.parts = append(o.parts, p)
		}
		size, side = max(size, p.rows*p.cols), max(side, min(p.rows, p.cols))
	}
	o.adam = NewAdam(rest, Beta1, Beta2, Epsilon, clip)
	o.w, o.g = make([]float32, rest), make([]float32, rest)
	o.x, o.y = make([]float32, size), make([]float32, size)
	o.a, o.b = make([]float32, side*side), make([]float32, side*side)
	return o
}

// ofVocabulary reports whether a tensor belongs to the embeddings or to the softmax.
func ofVocabulary(t txl.Tensor) bool {
	return strings.HasPrefix(t.Name, "word_emb.") || strings.HasPrefix(t.Name, "crit.")
}

// Step moves the weights w against the gradient g with a learning rate; see Optimizer.
func (o *Muon) Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64) {
	if norm = o.norm.of(x, g); !Finite(norm) {
		return norm
	}
	for _, p := range o.parts {
		lo, hi := p.off, p.off+p.rows*p.cols
		o.momentum(x, o.M[lo:hi], g[lo:hi])
		u := o.orthogonal(x, p.rows, p.cols)
		x.Axpy(w[lo:hi], float32(-rate*muonRMS*math.Sqrt(float64(max(p.rows, p.cols)))), u)
	}
	o.gather(o.w, w)
	o.gather(o.g, g)
	o.adam.Step(x, o.w, o.g, rate)
	at := 0
	for _, t := range o.rest {
		at += copy(w[t.Off:t.Off+t.Size], o.w[at:])
	}
	return norm
}

func (o *Muon) gather(dst, arena []float32) {
	at := 0
	for _, t := range o.rest {
		at += copy(dst[at:], arena[t.Off:t.Off+t.Size])
	}
}

// momentum updates the momentum m of a matrix: m <- µ m + (1-µ) g, with µ = muonMomentum. Then it
// writes Nesterov's look-ahead, µ m + (1-µ) g with the new m, to o.x.
func (o *Muon) momentum(x *kernel.Exec, m, g []float32) {
	u := o.x[:len(m)]
	x.Scale(m, muonMomentum)
	x.Axpy(m, 1-muonMomentum, g)
	copy(u, m)
	x.Scale(u, muonMomentum)
	x.Axpy(u, 1-muonMomentum, g)
}

// orthogonal returns a nearly semi-orthogonal matrix [rows, cols] with the singular vectors of o.x.
// First, division by the norm makes all singular values at most 1. Each round then maps a singular
// value s to muonA s + muonB s³ + muonC s⁵. The singular values end between about 0.7 and 1.2,
// unless they were tiny. A zero matrix stays zero. The method overwrites o.x and o.y.
func (o *Muon) orthogonal(e *kernel.Exec, rows, cols int) []float32 {
	n := rows * cols
	x, y := o.x[:n], o.y[:n]
	norm := math.Sqrt(float64(e.Dot(x, x)))
	if norm == 0 {
		return x
	}
	e.Scale(x, float32(1/norm))
	side := min(rows, cols)
	a, b := kernel.Mat(o.a[:side*side], side, side), kernel.Mat(o.b[:side*side], side, side)
	for range muonRounds {
		xm, ym := kernel.Mat(x, rows, cols), kernel.Mat(y, rows, cols)
		if rows <= cols {
			e.MulNT(a, xm, xm, false) // X Xᵀ
		} else {
			e.MulTN(a, xm, xm, false) // Xᵀ X
		}
		e.MulNT(b, a, a, false) // A is symmetric, so A Aᵀ = A²
		e.Scale(b.Data, muonC)
		e.Axpy(b.Data, muonB, a.Data)
		if rows <= cols {
			e.MulNN(ym, b, xm, false)
		} else {
			e.MulNN(ym, xm, b, false)
		}
		e.Axpy(y, muonA, x)
		x, y = y, x
	}
	return x
}

// Moments returns the moments of Adam, and Muon's momentum.
func (o *Muon) Moments() []Moment { return append(o.adam.Moments(), Moment{"muon.m", o.M}) }

// SetSteps sets the number of steps that have been made.
func (o *Muon) SetSteps(n int) { o.adam.SetSteps(n) }
