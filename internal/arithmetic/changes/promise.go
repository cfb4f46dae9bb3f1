package changes

// promise is a threshold that keeps a rate of reports whatever the log: each report raises it, and
// each line lowers it again,
//
//	threshold = max(floor, threshold - raise / lines)
//
// so that n lines have at most n/lines + (start - floor)/raise + a few reports.
type promise struct{ Threshold float64 }

// limits are the constants of a promise.
type limits struct{ start, floor, raise, lines float64 }

var (
	surgeLimits  = limits{start: 13, floor: 4, raise: 9, lines: 2000}
	numberLimits = limits{start: 7, floor: 4, raise: 4, lines: 2000}
	driftLimits  = limits{start: 9, floor: 8, raise: 12, lines: 10000}
	emptyLimits  = limits{start: 2, floor: 1, raise: 1, lines: 2000}
	fieldLimits  = limits{start: 2, floor: 1, raise: 1, lines: 2000}
)

// line lowers the threshold by one line's share.
func (p *promise) line(of limits) {
	p.Threshold = max(of.floor, p.Threshold-of.raise/of.lines)
}

// report raises the threshold by one report.
func (p *promise) report(of limits) { p.Threshold += of.raise }
