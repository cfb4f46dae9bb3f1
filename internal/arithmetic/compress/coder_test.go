package compress

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

func drawShares(t *rapid.T) *shares {
	logProbs := rapid.SliceOfN(rapid.Float32Range(-120, 0), 1, 12).Draw(t, "log-probabilities")
	if rapid.Bool().Draw(t, "certain") {
		logProbs[rapid.IntRange(0, len(logProbs)-1).Draw(t, "of them")] = 0
	}
	s := newShares(kernel.Arithmetic{}.Vectors(), len(logProbs))
	s.set(logProbs)
	return s
}

func TestSymbolsComeBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dists := rapid.SliceOfN(rapid.Custom(drawShares), 0, 200).Draw(rt, "distributions")
		symbols, bits := make([]int32, len(dists)), 0.0
		e := newEncoder()
		for i, d := range dists {
			symbols[i] = rapid.Int32Range(0, int32(len(d.p))-1).Draw(rt, "symbol")
			from, size := d.of(symbols[i])
			e.encode(from, size, d.total())
			bits -= math.Log2(float64(size) / float64(d.total()))
		}
		coded := e.end()
		require.InDelta(rt, bits/8, float64(len(coded)), 1.1+1e-5*bits)
		d := newDecoder(coded)
		for i, dist := range dists {
			symbol := dist.holder(d.part(dist.total()))
			require.Equal(rt, symbols[i], symbol)
			from, size := dist.of(symbol)
			d.narrow(from, size, dist.total())
		}
		require.Equal(rt, ahead, d.beyond())
	})
}

// A carry passes through any number of bytes whose value is 255.
func TestCarryGoesThroughAllBytes(t *testing.T) {
	e := newEncoder()
	e.out, e.low, e.width = []byte{7, 255, 255}, 1<<64-1, 1<<60
	e.encode(15, 1, 16)
	require.Equal(t, []byte{8, 0, 0}, e.out[:3])
}

// Even if log-probabilities are NaN or infinite, the resulting shares can encode every symbol.
func TestSharesOfWhatIsNoDistribution(t *testing.T) {
	s := newShares(kernel.Arithmetic{}.Vectors(), 4)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s.set([]float32{nan, inf, -inf, 3})
	for i := range int32(4) {
		from, size := s.of(i)
		require.NotZero(t, size)
		require.Equal(t, i, s.holder(from))
		require.Equal(t, i, s.holder(from+size-1))
	}
	require.Less(t, s.total(), uint64(1<<35))
}
