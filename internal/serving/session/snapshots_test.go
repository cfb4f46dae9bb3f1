package session

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func gaps(kept []int64) (all []int64) {
	before := int64(0)
	for _, at := range kept {
		all = append(all, at-before)
		before = at
	}
	return all
}

func TestSnapshotsForForksAreSpreadOverTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(0, 20).Draw(t, "most")
		step := rapid.Int64Range(1, 100).Draw(t, "step")
		var kept []int64
		for n := range int64(rapid.IntRange(1, 400).Draw(t, "snapshots")) {
			kept = append(kept, (n+1)*step)
			for _, at := range superfluous(kept, step, most) {
				kept = slices.DeleteFunc(kept, func(k int64) bool { return k == at })
			}
			end := (n + 1) * step
			require.Len(t, kept, min(int(n)+1, most+recoverySnapshots))
			require.Equal(t, end, kept[len(kept)-1])
			if n > 0 {
				require.Equal(t, end-step, kept[len(kept)-2], "the last two stay")
			}
			if most > 0 && n > 0 {
				older := gaps(kept)[:len(kept)-1]
				require.LessOrEqual(t, slices.Max(older), 2*max(step, end/int64(most)))
			}
		}
	})
}

// A session that is often dropped from memory takes snapshots closer than the spacing. These
// snapshots do not pile up, and no gap grows larger than the spacing.
func TestSnapshotsThatSaveLittleDoNotStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const spacing, many = 1000, 1000
		var kept []int64
		end := int64(0)
		for range rapid.IntRange(1, 300).Draw(t, "snapshots") {
			end += rapid.Int64Range(1, spacing).Draw(t, "step")
			kept = append(kept, end)
			for _, at := range superfluous(kept, spacing, many) {
				kept = slices.DeleteFunc(kept, func(k int64) bool { return k == at })
			}
			require.LessOrEqual(t, slices.Max(gaps(kept)), int64(spacing))
			require.LessOrEqual(t, len(kept), int(2*end/spacing)+recoverySnapshots+1)
		}
	})
}

func TestSpacing(t *testing.T) {
	require.Equal(t, int64(4000), spacing(2000, 2*time.Second, 4*time.Second))
	require.Zero(t, spacing(2000, 0, 4*time.Second), "not known")
	require.Empty(t, superfluous([]int64{1, 2, 3}, 0, 8))
	require.Equal(t, []int64{1, 2}, superfluous([]int64{1, 2, 3, 4}, 0, 0))
	require.Equal(t, []int64{10, 30}, superfluous([]int64{10, 20, 30, 40, 50}, 20, 8))
}
