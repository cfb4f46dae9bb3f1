package session

import (
	"slices"
	"time"
)

const (
	// recoverySnapshots is how many snapshots a session always has, once it has taken them: a recovery
	// begins from the last one, and from the one before if damage has taken the last.
	recoverySnapshots = 2
	// forkReplay is the computing between two snapshots that are kept for forks, at most. With the
	// reading of a state, and the fork itself, a fork is ready in 5 seconds, as long as there are enough.
	forkReplay = 4 * time.Second
	// dropsAtOnce bounds how many snapshots go when one is taken: mostly one does, and many only when
	// a server may keep fewer than the one before.
	dropsAtOnce = 8
)

// spacing is how many bytes of text take so much computing, by what some have taken; 0 is not known.
func spacing(bytes int64, took, apart time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(bytes) * float64(apart) / float64(took))
}

// superfluous says which of a session's snapshots, given by their offsets in ascending order, are of
// no more use. The last ones, for recovery, stay. Of those before, for forks, at most so many stay,
// and none whose neighbours are not further apart than the spacing: the start of the text is a
// neighbour, too, from which a fork needs no snapshot. The one goes first that leaves the smallest
// gap, so that the gaps grow evenly with the text: between snapshots that were taken evenly, none is
// more than twice the text by the number that may stay.
func superfluous(kept []int64, spacing int64, most int) (drop []int64) {
	kept = slices.Clone(kept)
	for older := len(kept) - recoverySnapshots; older > 0; older-- {
		least, which, before := int64(-1), 0, int64(0)
		for n, at := range kept[:older] {
			if gap := kept[n+1] - before; least < 0 || gap < least {
				least, which = gap, n
			}
			before = at
		}
		if older <= most && least > spacing {
			break
		}
		drop = append(drop, kept[which])
		kept = slices.Delete(kept, which, which+1)
	}
	return drop
}
