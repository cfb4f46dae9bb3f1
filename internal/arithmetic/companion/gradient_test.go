package companion

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// The gradient equals the derivative of the loss that Score returns. The test compares it with
// finite differences in float64, in random directions and after random texts.
func TestGradientIsThatOfLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.IntRange(1, networksMax).Draw(t, "networks")
		text := drawText(t, 1000)
		r := reader{New(small(networks)), widest(), someNetworks(networks, 7), 0}
		r.feed(text)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "direction"), 6))
		of, b := r.of[rng.IntN(len(r.of))], text[len(text)-1]
		if rapid.Bool().Draw(t, "any byte") {
			b = byte(rng.IntN(256))
		}
		r.x.Begin(r.s)
		nll := r.x.Score(r.s, of, b)
		r.x.Back(r.s)
		slopes, gradient := r.x.Slopes(), [256]float32{}
		r.x.Gradient(of[0], b, &slopes, 1, gradient[:])

		logits, direction, sum := [256]float64{}, [256]float64{}, 0.
		for j := range logits {
			logits[j], direction[j] = float64(of[0][j]), rng.NormFloat64()
			sum += direction[j] * float64(gradient[j])
		}
		loss := func(step float64) float64 {
			moved := logits
			for j := range moved {
				moved[j] += step * direction[j]
			}
			return lossOf(r.s, r.x, b, moved[:])
		}
		const step = 1e-6
		require.InDelta(t, nll, loss(0), 1e-2) // float32 is inexact for rare bytes
		require.InDelta(t, (loss(step)-loss(-step))/(2*step), sum, 5e-3+5e-3*math.Abs(sum))
	})
}

// lossOf returns the loss that a byte would have if the first network had the given logits,
// computed in float64. The byte must be the last scored byte, and Back must have been called.
func lossOf(s *State, x *Scratch, b byte, logits []float64) (nll float64) {
	mass := func(node int) (sum float64) {
		for j, l := range logits {
			if (256|j)>>(8-bits.Len(uint(node))+1) == node {
				sum += math.Exp(l)
			}
		}
		return sum
	}
	bound := func(a, most float64) float64 { return max(-most, min(most, a)) }
	for k := range x.nodes {
		node, mean := nodeOf(b, k), 0.
		in := slices.Clone(x.path[k*inputCount : (k+1)*inputCount])
		in[firstNetwork] = 0
		network := bound(math.Log(mass(2*node+1))-math.Log(mass(2*node)), treeMost)
		for _, row := range x.look.rowsAt(node) {
			weights := s.weights(row, 1)
			a := float64(weights[firstNetwork]) * network
			for i, v := range in {
				a += float64(weights[i]) * float64(v)
			}
			mean += bound(a, logitMost) / setCount
		}
		place := bound(mean, refineEdge-1./128) + refineEdge
		from := x.nodes[k].refined.at - int(x.nodes[k].refined.at-refinesAt)%refineSteps
		lower, upper := float64(s.floats[from+int(place)]), float64(s.floats[from+int(place)+1])
		p := (1/(1+math.Exp(-mean)) + lower + (upper-lower)*(place-math.Floor(place))) / 2
		if p = max(1-bitMost, min(bitMost, p)); bitOf(b, k) == 0 {
			p = 1 - p
		}
		nll -= math.Log(p)
	}
	return nll
}

// With share 0, the gradient is that of a softmax cross-entropy: the probabilities minus the
// one-hot vector of the byte.
func TestGradientOfNetworkLossIsThatOfSoftmax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		logProbs, b := distribution(rng), byte(rng.IntN(256))
		var gradient [256]float32
		widest().Gradient(logProbs, b, &Slopes{1, 2, 3}, 0, gradient[:])
		total := sumOf(logProbs) // not exactly 1, since the probabilities are rounded
		for j, g := range gradient {
			want := math.Exp(float64(logProbs[j])) / total
			if j == int(b) {
				want--
			}
			require.InDelta(t, want, g, 1e-6)
		}
	})
}

// The gradient is finite even if a network assigns all probability to one byte. The gradient is
// zero where the mixture does not depend on the network.
func TestGradientOfCertainNetworkIsFinite(t *testing.T) {
	for _, share := range []float32{0, 0.5, 1} {
		for _, b := range []byte{7, 8, 200} {
			s, x := New(small(1)), widest()
			x.Begin(s)
			x.Score(s, Networks{certain(7)}, b)
			slopes, gradient := x.Slopes(), make([]float32, 256)
			x.Gradient(certain(7), b, &slopes, share, gradient)
			for _, g := range gradient {
				require.False(t, math.IsNaN(float64(g)) || math.IsInf(float64(g), 0))
				require.True(t, share < 1 || g == 0)
			}
		}
	}
}

func TestGradientIsSameEverywhere(t *testing.T) {
	text, of := prose(3000, 4), someNetworks(1, 9)
	var want [][256]float32
	eachSet(t, func(t *testing.T, v kernel.Vectors) {
		r := reader{New(small(1)), NewScratch(v), of, 0}
		var got [][256]float32
		r.x.Begin(r.s)
		for i, b := range text {
			network := of[i%len(of)]
			r.x.Score(r.s, network, b)
			slopes, gradient := r.x.Slopes(), [256]float32{}
			r.x.Gradient(network[0], b, &slopes, 0.5, gradient[:])
			got = append(got, gradient)
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
		slopes, gradient := r.x.Slopes(), make([]float32, 256)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			r.x.Gradient(of[0][0], 7, &slopes, 1, gradient)
		}))
	})
}

// rowsAt returns, for each set, the index of the row of weights used at a node.
func (l *look) rowsAt(node int) [setCount]int {
	rows := l.rows
	rows[setNode] = nodeRows + node
	return rows
}
