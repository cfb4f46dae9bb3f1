package eval

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/tokenizer"
)

func bytesOf(n int) *tokenizer.Tokens {
	var tokens tokenizer.Tokens
	tokenizer.Bytes{}.Next(&tokens, nil, make([]byte, n), n)
	return &tokens
}

// The recorded sums do not depend on how the scores are split over calls of add.
func TestMeterKnowsBitsUpToItsMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nll := rapid.SliceOfN(rapid.Float32Range(0, 20), 0, 500).Draw(t, "nll")
		m := &meter{unknown: -1, marks: octaves(400)}
		for rest := nll; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			m.add(bytesOf(n), rest[:n])
			rest = rest[n:]
		}
		var sum float64
		for i, v := range nll {
			sum += float64(v) / math.Ln2
			for _, mark := range m.marks {
				if mark == int64(i+1) {
					require.Equal(t, sum, m.upTo(mark))
				}
			}
		}
		require.Equal(t, sum, m.tally.Bits)
		require.EqualValues(t, len(nll), m.tally.Tokens)
		for _, mark := range m.marks {
			require.Equal(t, mark > int64(len(nll)), math.IsNaN(m.upTo(mark)),
				"no bits of tokens that were not scored")
		}
	})
}

func TestMarksHoldTheLengthsOfTheCurve(t *testing.T) {
	marks := octaves(200 * kb)
	for _, n := range slices.Concat(firstBytes, firstWords) {
		require.Contains(t, marks, n)
	}
	require.IsIncreasing(t, marks)
	require.Empty(t, octaves(63))
}

func TestRunningWindowSuitsStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 1<<32).Draw(t, "bytes")
		marks, window := running(n, n)
		require.GreaterOrEqual(t, window, int64(kb))
		if n >= 32*kb {
			require.LessOrEqual(t, 16*window, n)
			require.Greater(t, 32*window, n)
		}
		require.LessOrEqual(t, len(marks), 256)
		for _, s := range runningSpans(marks, window) {
			require.LessOrEqual(t, s.to, n)
			require.True(t, s.from == 0 || s.to-s.from == window)
		}
	})
}
