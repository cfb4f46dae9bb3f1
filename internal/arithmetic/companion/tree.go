package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// portable are the vector functions that work everywhere; all sets give the same bits.
var portable kernel.Vectors

// squash replaces logits by probabilities, 1/(1+e^-a).
func squash(v kernel.Vectors, a []float32) {
	v.Scale(a, -1)
	v.Exp(a, a)
	for i, e := range a {
		a[i] = 1 / (1 + e)
	}
}

// limit keeps a logit within a bound.
func limit(a, most float32) float32 { return max(-most, min(most, a)) }

// within reports whether a logit is not at its bound.
func within(a, most float32) bool { return a > -most && a < most }

// tree is the distribution of a network over the 256 bytes, as masses below nodes: node n has the
// children 2n, where the next bit is 0, and 2n+1; byte b is leaf 256+b.
type tree struct {
	mass [512]float32
	logs [512]float32 // of the masses, where they were asked for
}

// set sets the masses from log-probabilities [256].
func (t *tree) set(v kernel.Vectors, logProbs []float32) {
	v.Exp(t.mass[256:], logProbs)
	for n := 255; n > 0; n-- {
		t.mass[n] = t.mass[2*n] + t.mass[2*n+1]
	}
}

// logit is the network's own logit at a node, the logarithms of whose children are known. Where
// both have no mass the network has no opinion. What is no distribution, but NaNs, leads to NaNs.
func (t *tree) logit(node int) float32 {
	if t.mass[node] == 0 {
		return 0
	}
	return limit(t.logs[2*node+1]-t.logs[2*node], treeMost)
}

// treeMost bounds the logit of a network.
const treeMost = 9

// path finds the logarithms at the children of the nodes on the way to a byte.
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

// all finds all logarithms.
func (t *tree) all(v kernel.Vectors) { v.Log(t.logs[:], t.mass[:]) }

// nodeOf is the node at which bit k of a byte is decided; bit 0 is the highest.
func nodeOf(b byte, k int) int { return (256 | int(b)) >> (8 - k) }

// bitOf is bit k of a byte.
func bitOf(b byte, k int) uint8 { return b >> (7 - k) & 1 }
