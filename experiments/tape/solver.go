package tape

import (
	"math"
	"math/rand/v2"
)

// Glorot returns a (rows, cols) matrix drawn from a uniform distribution of variance
// 2/(rows+cols).
func Glorot(rows, cols int, r *rand.Rand) *Var {
	v := New(rows, cols)
	limit := math.Sqrt(6 / float64(rows+cols))
	for i := range v.Value {
		v.Value[i] = limit * (2*r.Float64() - 1)
	}
	return v
}

// ClearGradients sets all gradients to zero.
func ClearGradients(params []*Var) {
	for _, p := range params {
		clear(p.Grad)
	}
}

// Clip scales all gradients so that their total norm is at most limit. It returns the norm before
// scaling.
func Clip(params []*Var, limit float64) float64 {
	sum := 0.
	for _, p := range params {
		for _, g := range p.Grad {
			sum += g * g
		}
	}
	norm := math.Sqrt(sum)
	if norm > limit {
		for _, p := range params {
			for i := range p.Grad {
				p.Grad[i] *= limit / norm
			}
		}
	}
	return norm
}

// A Solver updates parameters by one step of gradient descent, and sets their gradients to zero.
type Solver interface{ Step(params []*Var) }

// Adam is the optimizer of Kingma and Ba (2014), with beta1 = .9 and beta2 = .999.
type Adam struct {
	Rate     float64
	steps    int
	mean, sq map[*Var][]float64
}

// Step implements Solver.
func (a *Adam) Step(params []*Var) {
	if a.mean == nil {
		a.mean, a.sq = map[*Var][]float64{}, map[*Var][]float64{}
	}
	const beta1, beta2 = 0.9, 0.999
	a.steps++
	rate := a.Rate * math.Sqrt(1-math.Pow(beta2, float64(a.steps))) /
		(1 - math.Pow(beta1, float64(a.steps)))
	for _, p := range params {
		if a.mean[p] == nil {
			a.mean[p], a.sq[p] = make([]float64, len(p.Value)), make([]float64, len(p.Value))
		}
		m, v := a.mean[p], a.sq[p]
		for i, g := range p.Grad {
			m[i] = beta1*m[i] + (1-beta1)*g
			v[i] = beta2*v[i] + (1-beta2)*g*g
			p.Value[i] -= rate * m[i] / (math.Sqrt(v[i]) + 1e-8)
		}
		clear(p.Grad)
	}
}

// RMSProp divides gradients by the root of their moving mean square (Hinton's lecture 6e, 2012),
// with decay .99.
type RMSProp struct {
	Rate float64
	sq   map[*Var][]float64
}

// Step implements Solver.
func (r *RMSProp) Step(params []*Var) {
	if r.sq == nil {
		r.sq = map[*Var][]float64{}
	}
	for _, p := range params {
		if r.sq[p] == nil {
			r.sq[p] = make([]float64, len(p.Value))
		}
		v := r.sq[p]
		for i, g := range p.Grad {
			v[i] = 0.99*v[i] + 0.01*g*g
			p.Value[i] -= r.Rate * g / (math.Sqrt(v[i]) + 1e-8)
		}
		clear(p.Grad)
	}
}
