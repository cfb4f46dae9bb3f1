package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// portable are the vector functions in Go; all instruction sets give the same bits.
var portable kernel.Vectors

// squash replaces logits by probabilities, 1/(1+e^-a).
func squash(v kernel.Vectors, a []float32) {
	v.Scale(a, -1)
	v.Exp(a, a)
	for i, e := range a {
		a[i] = 1 / (1 + e)
	}
}

// limit clamps a logit to -most .. most.
func limit(a, most float32) float32 { return max(-most, min(most, a)) }

// within reports whether a logit lies strictly between its bounds.
func within(a, most float32) bool { return a > -most && a < most }

// tree is the distribution of a network over the 256 bytes, as masses below nodes. Node n has the
// children 2n, where the next bit is 0, and 2n+1. Byte b is leaf 256+b.
type tree struct {
	mass [512]float32
	logs [512]float32 // logarithms of the masses; set only where they are needed
}

// set sets the masses from log-probabilities [256].
func (t *tree) set(v kernel.Vectors, logProbs []float32) {
	v.Exp(t.mass[256:], logProbs)
	for n := 255; n > 0; n-- {
		t.mass[n] = t.mass[2*n] + t.mass[2*n+1]
	}
}

// logit returns the network's own logit at a node; the logarithms of its children must be set. If
// both children have no mass, the logit is 0. A distribution of NaNs gives NaN.
func (t *tree) logit(node int) float32 {
	if t.mass[node] == 0 {
		return 0
	}
	return limit(t.logs[2*node+1]-t.logs[2*node], treeMost)
}

// treeMost bounds the logit of a network.
const treeMost = 9

// path computes the logarithms at the children of the nodes on the way to a byte.
func (t *tree) path(v kernel.Vectors, b byte) {
	var of [16]float32
	for k := range 8 {
		children := 2 * nodeOf(b, k)
		of[2*k], of[2*k+1] = t.mass[children], t.mass[children+1]
	}
	v.Log(of[:], of[:])
	for k := range 8 {
		children := 2 * nodeOf(b, k)
		t.logs[children], t.logs[children+1] = of[2*k], of[2*k+1]
	}
}

// all computes all logarithms.
func (t *tree) all(v kernel.Vectors) { v.Log(t.logs[:], t.mass[:]) }

// nodeOf returns the node that decides bit k of a byte; bit 0 is the highest.
func nodeOf(b byte, k int) int { return (256 | int(b)) >> (8 - k) }

// bitOf returns bit k of a byte.
func bitOf(b byte, k int) uint8 { return b >> (7 - k) & 1 }
