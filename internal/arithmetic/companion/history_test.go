package companion

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHistoriesAreClosed(t *testing.T) {
	numbers := map[history]int{}
	for i, h := range histories {
		require.True(t, allowed(h.zeros, h.ones), "%v", h)
		numbers[h] = i
	}
	require.Len(t, numbers, historyCount)
	require.Equal(t, 0, numbers[history{}])
	for i, h := range histories {
		for bit := range uint8(2) {
			require.Equal(t, h.after(bit), histories[nextHistory[i][bit]])
		}
	}
}

func TestHistoryFollowsItsBits(t *testing.T) {
	for _, h := range histories {
		one, zero := h.after(1), h.after(0)
		require.LessOrEqual(t, one.zeros, h.zeros)
		require.LessOrEqual(t, zero.ones, h.ones)
		require.GreaterOrEqual(t, int(one.ones)-int(one.zeros), int(h.ones)-int(h.zeros), "%v", h)
		require.Equal(t, history{h.ones, h.zeros, 1 - h.last}, mirrored(h), "%v", h)
		require.Equal(t, mirrored(one), flipped(mirrored(h).after(0)), "%v", h)
	}
	require.Equal(t, history{0, 1, 0}, history{}.after(1))
	require.Equal(t, history{5, 1, 1}, history{30, 0, 0}.after(1))
}

func mirrored(h history) history { return history{h.ones, h.zeros, 1 - h.last} }

// flipped makes a history comparable with the result of mirrored: if all bits are equal, it sets
// the field last to 1.
func flipped(h history) history {
	if h.zeros == 0 || h.ones == 0 {
		h.last = 1
	}
	return h
}
