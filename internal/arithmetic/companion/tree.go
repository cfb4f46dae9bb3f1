package companion

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// portable has the vector functions in pure Go. All instruction sets give bit-identical results.
var portable kernel.Vectors

// squash replaces each logit a by the probability 1/(1+e^-a).
func squash(v kernel.Vectors, a []float32) {
	v.Scale(a, -1)
	v.Exp(a, a)
	for i, e := range a {
		a[i] = 1 / (1 + e)
	}
}

func limit(a, most float32) float32 { return max(-most, min(most, a)) }

func within(a, most float32) bool { return a > -most && a < most }

// tree is a network's distribution over the 256 bytes as a binary tree. The mass of a node is the
// total probability of the bytes below the node. Node n has the children 2n, for a next bit 0, and
// 2n+1, for a next bit 1. Byte b is leaf 256+b.
type tree struct {
	mass [512]float32
	logs [512]float32 // logarithms of the masses; computed only where needed
}

func (t *tree) set(v kernel.Vectors, logProbs []float32) {
	v.Exp(t.mass[256:], logProbs)
	for n := 255; n > 0; n-- {
		t.mass[n] = t.mass[2*n] + t.mass[2*n+1]
	}
}

// logit returns the network's logit at a node. The logarithms of the node's children must be set.
// If both children have no mass, the logit is 0. If the distribution is NaN, the logit is NaN.
func (t *tree) logit(node int) float32 {
	if t.mass[node] == 0 {
		return 0
	}
	return limit(t.logs[2*node+1]-t.logs[2*node], treeMost)
}

// treeMost is the maximum absolute logit of a network at a node.
const treeMost = 9

// path computes the logarithms for the method logit at the eight nodes that code byte b.
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

func (t *tree) all(v kernel.Vectors) { v.Log(t.logs[:], t.mass[:]) }

// nodeOf returns the tree node that codes bit k of a byte. Bit 0 is the highest bit.
func nodeOf(b byte, k int) int { return (256 | int(b)) >> (8 - k) }

// bitOf returns bit k of a byte, where bit 0 is the highest bit.
func bitOf(b byte, k int) uint8 { return b >> (7 - k) & 1 }
