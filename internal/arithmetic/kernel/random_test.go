package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBitsAreSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F} {
		require.Equal(t, want, Bits(0, uint64(i)))
	}
	// SplitMix64 adds the constant golden to its state in each step. A generator whose initial
	// state is the state after i steps must return the same outputs without the first i.
	state := uint64(7)
	for range 2 {
		state += golden
	}
	require.Equal(t, Bits(7, 5), Bits(state, 3))
}

func TestKeysDependOnEveryPartAndItsPlace(t *testing.T) {
	seen := map[uint64][]uint64{}
	for _, parts := range [][]uint64{{}, {0}, {1}, {0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 0, 0},
		{1, 2, 3}, {3, 2, 1}, {1, 2, 4}} {
		key := Key(parts...)
		require.NotContains(t, seen, key, "%v", parts)
		seen[key] = parts
	}
}

// Key and Bits must never change their results, since they define what a session's seed means.
func TestKeyIsFixed(t *testing.T) {
	require.Equal(t, uint64(0x83D1EB2DFD7A22AC), Key(1, 2, 3, 4))
}

// For adjacent keys and counters, every output bit must be set about half of the time. Among 20,000
// draws the number of set bits has a standard deviation of 71.
func TestBitsAreBalanced(t *testing.T) {
	var ones [64]int
	for i := range uint64(200) {
		key := Key(1, 0, i)
		for c := range uint64(100) {
			v := Bits(key, c)
			for b := range ones {
				ones[b] += int(v >> b & 1)
			}
		}
	}
	for b, n := range ones {
		require.InDelta(t, 10_000, n, 6*71, "bit %d", b)
	}
}
