package sparsemeta

import (
	"fmt"
	"math"
)

const (
	hidden = 20 // units of each of the two hidden layers

	// NetworkSize is the number of weights of a Network.
	NetworkSize = endB3

	// LeakySlope is the slope of the hidden units' nonlinearity below zero.
	LeakySlope = 0.01

	// preprocessP is the parameter p of the preprocessing: inputs with |x| < e^-p are scaled
	// linearly.
	preprocessP = 7
	expP        = 1096.6331584284585992637202382881214324422 // e^7
)

const (
	endW1 = hidden * 2
	endB1 = endW1 + hidden
	endW2 = endB1 + hidden*hidden
	endB2 = endW2 + hidden
	endW3 = endB2 + hidden
	endB3 = endW3 + 1
)

// Network is the meta-learner g: R -> R of one branch (eq. 4 of the paper, with biases):
//
//	g(x) = w3 s(w2 s(w1 pre(x) + b1) + b2) + b3,  s(z) = z if z > 0 else 0.01 z
//
// The elements are w1 [20,2], b1 [20], w2 [20,20], b2 [20], w3 [1,20] and b3 [1], in this order.
// Matrices are stored row by row. Preprocess computes pre(x).
type Network [NetworkSize]float32

// Part is one of the six arrays of a Network.
type Part struct {
	Name   string // w1, b1, w2, b2, w3 or b3
	Shape  []int
	Lo, Hi int // the array is Network[Lo:Hi]
}

// Parts returns the arrays of a Network in order.
func Parts() []Part {
	return []Part{
		{"w1", []int{hidden, 2}, 0, endW1},
		{"b1", []int{hidden}, endW1, endB1},
		{"w2", []int{hidden, hidden}, endB1, endW2},
		{"b2", []int{hidden}, endW2, endB2},
		{"w3", []int{1, hidden}, endB2, endW3},
		{"b3", []int{1}, endW3, endB3},
	}
}

func (n *Network) w1() []float32 { return n[:endW1] }
func (n *Network) b1() []float32 { return n[endW1:endB1] }
func (n *Network) w2() []float32 { return n[endB1:endW2] }
func (n *Network) b2() []float32 { return n[endW2:endB2] }
func (n *Network) w3() []float32 { return n[endB2:endW3] }

// Preprocess is the input transformation of Andrychowicz et al. with p = 7. It returns (ln|x|/7,
// sign x) if |x| >= e^-7, else (-1, e^7 x). A larger |x| than 2^128 counts as 2^128, and NaN as 0.
func Preprocess(x float64) (magnitude, sign float64) {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return -1, 0
	case a < 1/expP:
		return -1, expP * x
	default:
		return math.Log(min(a, beyondFloat32)) / preprocessP, math.Copysign(1, x)
	}
}

// Eval returns g(x), computed in float64. A Table approximates Eval. With finite weights, the
// result is finite for every x, including infinities and NaN. Explicit conversions of products to
// float64 keep the compiler from fusing multiplication and addition.
func (n *Network) Eval(x float64) float64 {
	return n.evalPreprocessed(Preprocess(x))
}

func (n *Network) evalPreprocessed(magnitude, sign float64) float64 {
	w1, b1, w2, b2, w3 := n.w1(), n.b1(), n.w2(), n.b2(), n.w3()
	var h1 [hidden]float64
	for i := range h1 {
		h1[i] = leaky(float64(float64(w1[2*i])*magnitude) + float64(float64(w1[2*i+1])*sign) +
			float64(b1[i]))
	}
	y := float64(n[endW3])
	for i := range hidden {
		z := float64(b2[i])
		for j, h := range h1 {
			z += float64(float64(w2[hidden*i+j]) * h)
		}
		y += float64(float64(w3[i]) * leaky(z))
	}
	return y
}

// Backward adds d dg(x)/dphi to grad, where phi are the 501 weights. It is the reference
// implementation for the gradients of tables and of package metatrain.
func (n *Network) Backward(x, d float64, grad *[NetworkSize]float64) {
	magnitude, sign := Preprocess(x)
	w1, b1, w2, b2, w3 := n.w1(), n.b1(), n.w2(), n.b2(), n.w3()
	var z1, h1, dh1 [hidden]float64
	for i := range h1 {
		z1[i] = float64(float64(w1[2*i])*magnitude) + float64(float64(w1[2*i+1])*sign) +
			float64(b1[i])
		h1[i] = leaky(z1[i])
	}
	for i := range hidden {
		z := float64(b2[i])
		for j, h := range h1 {
			z += float64(float64(w2[hidden*i+j]) * h)
		}
		grad[endB2+i] += float64(d * leaky(z))
		dz := float64(d * float64(w3[i]) * leakySlope(z))
		grad[endW2+i] += dz
		for j, h := range h1 {
			grad[endB1+hidden*i+j] += float64(dz * h)
			dh1[j] += float64(dz * float64(w2[hidden*i+j]))
		}
	}
	grad[endW3] += d
	for i, dh := range dh1 {
		dz := float64(dh * leakySlope(z1[i]))
		grad[endW1+i] += dz
		grad[2*i] += float64(dz * magnitude)
		grad[2*i+1] += float64(dz * sign)
	}
}

func leaky(z float64) float64 {
	if z > 0 {
		return z
	}
	return LeakySlope * z
}

func leakySlope(z float64) float64 {
	if z > 0 {
		return 1
	}
	return LeakySlope
}

// Validate returns an error for the first weight that is not finite.
func (n *Network) Validate() error {
	for _, part := range Parts() {
		for i, v := range n[part.Lo:part.Hi] {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("%s[%d]: found %v, want a finite number", part.Name, i, v)
			}
		}
	}
	return nil
}
