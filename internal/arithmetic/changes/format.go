package changes

// The format of a log changes when most lines have new shapes and hardly any had before. A shape is
// a line's separators; it counts as new in its first 16 lines. A fast and a slow running mean track
// the share of lines with new shapes. The format changes if the fast mean is above .75 and the slow
// mean below .1. The change is reported once. During the next 300 lines no other change is
// reported, since the new format causes other changes.

const (
	formatNew    = 16
	formatFast   = 1. / 8
	formatSlow   = 1. / 1024
	formatMost   = .75
	formatLeast  = .1
	formatLines  = 2 * warmLines
	formatQuiet  = 300 // lines after a new format during which nothing else is reported
	formatStays  = 2000
	formatRecent = 16
)

type format struct {
	Fast, Slow float32
	Told       int64 // line of the last report; 0 if there was none
}

// take records whether the n-th line has a new shape, and reports whether the format changes.
func (f *format) take(n int64, isNew bool) bool {
	x := float32(0)
	if isNew {
		x = 1
	}
	f.Fast += float32((x - f.Fast) * formatFast)
	f.Slow += float32((x - f.Slow) * max(formatSlow, 1/float32(n)))
	if f.Fast < formatMost || f.Slow > formatLeast || n < formatLines ||
		f.Told > 0 && n-f.Told < formatStays {
		return false
	}
	f.Told = n
	return true
}

// settling reports whether the format changed so recently that it may be the cause of other
// changes.
func (f *format) settling(n int64) bool { return f.Told > 0 && n-f.Told < formatQuiet }
