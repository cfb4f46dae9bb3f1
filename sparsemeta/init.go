package sparsemeta

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Init holds the standard deviations of the initial meta-weights, one for each array. The weights
// are normally distributed with mean 0.
//
// The deviations determine the size of the first fast weights. This size should be about 5e-3, well
// below the slow weights' 0.1. Training increases it.
type Init struct{ W1, B1, W2, B2, W3, B3 float64 }

// InitHe keeps the hidden units at order 1, so that their kinks spread over the inputs. The
// network's output is about 0.01. Settings.Out, which multiplies the output, is then also 0.01.
// Online meta-training begins with InitHe and uses Adam with a learning rate of 3e-3.
func InitHe() Init {
	return Init{W1: 1, B1: 0.3, W2: math.Sqrt(2. / hidden), W3: 0.01 / math.Sqrt(hidden)}
}

// InitSmall draws all weights from N(0, 0.02^2). The Sparse-MetaNet paper's meta-training begins
// with it, with Settings.Out 1 and a learning rate of 2.5e-4 for Adam.
func InitSmall() Init {
	const std = 0.02
	return Init{std, std, std, std, std, std}
}

// Init draws the initial weights of every network: one network for each bank and branch. The same
// seed gives the same weights.
func (l *Learner) Init(d Init, seed uint64) {
	l.Phi = make([][]Network, len(l.Settings.Gammas))
	for bank := range l.Phi {
		l.Phi[bank] = make([]Network, len(l.Branches))
		for branch := range l.Phi[bank] {
			d.draw(&l.Phi[bank][branch], kernel.Key(seed, uint64(bank), uint64(branch)))
		}
	}
}

func (d Init) draw(n *Network, key uint64) {
	std := []float64{d.W1, d.B1, d.W2, d.B2, d.W3, d.B3}
	for p, part := range Parts() {
		for i := part.Lo; i < part.Hi; i++ {
			n[i] = float32(std[p] * normal(key, uint64(i)))
		}
	}
}

// normal returns number i of a sequence of independent N(0,1) numbers (Box and Muller).
func normal(key, i uint64) float64 {
	const unit = 1. / (1 << 53)
	u := float64(kernel.Bits(key, 2*i)>>11+1) * unit // in (0, 1]
	v := float64(kernel.Bits(key, 2*i+1)>>11) * unit
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}
