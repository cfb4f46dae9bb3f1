package changes

// promise is a threshold that keeps a rate of reports whatever the log: each report raises it, and
// each line lowers it again,
//
//	threshold = max(floor, threshold - raise / promiseLines)
//
// so that n lines have at most n/promiseLines + (start - floor)/raise + a few reports.
type promise struct{ Threshold float64 }

const promiseLines = 2000

// limits are the constants of a promise.
type limits struct{ start, floor, raise float64 }

var (
	surgeLimits  = limits{start: 13, floor: 4, raise: 9}
	numberLimits = limits{start: 7, floor: 4, raise: 4}
)

// line lowers the threshold by one line's share.
func (p *promise) line(of limits) {
	p.Threshold = max(of.floor, p.Threshold-of.raise/promiseLines)
}

// report raises the threshold by one report.
func (p *promise) report(of limits) { p.Threshold += of.raise }
