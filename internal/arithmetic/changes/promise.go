package changes

// promise is a threshold that limits the rate of reports on any log. Each report raises the
// threshold, and each line lowers it again:
//
//	threshold = max(floor, threshold - raise / lines)
//
// So n lines have hardly more than n/lines + (start - floor)/raise reports.
type promise struct{ Threshold float64 }

// limits are the constants of a promise, which bounds the number of reports. After a score above
// the threshold, nothing is reported for `rest` lines.
type limits struct {
	start, floor, raise, lines float64
	rest                       int64
}

var (
	surgeLimits  = limits{start: 13, floor: 4, raise: 9, lines: 2000, rest: quietLines}
	numberLimits = limits{start: 7, floor: 4, raise: 4, lines: 2000, rest: quietLines}
	driftLimits  = limits{start: 9, floor: 8, raise: 12, lines: 10000, rest: driftQuiet}
	emptyLimits  = limits{start: 2, floor: 1, raise: 1, lines: 2000, rest: quietLines}
	fieldLimits  = limits{start: 2, floor: 1, raise: 1, lines: 2000, rest: fieldMisses}
)

func (p *promise) line(of limits) {
	p.Threshold = max(of.floor, p.Threshold-of.raise/of.lines)
}

func (p *promise) report(of limits) { p.Threshold += of.raise }

// tell processes the score of the n-th line, and returns whether the score reaches the threshold.
// If so, tell calls report, unless line n is before line *quiet. Then tell sets *quiet to the line
// from which reports are allowed again.
func (p *promise) tell(of limits, n int64, quiet *int64, score float64, report func()) bool {
	p.line(of)
	if score < p.Threshold {
		return false
	}
	if n >= *quiet {
		report()
		p.report(of)
	}
	*quiet = n + of.rest
	return true
}
