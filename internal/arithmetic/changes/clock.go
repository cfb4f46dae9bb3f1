package changes

// clock is the log's time in milliseconds, computed from the time stamps in its lines. If the log
// has no usable stamps, the clock counts lines instead.
type clock struct {
	Time    int64 // milliseconds since the first stamp
	Day     int64 // the last stamp's time of day, in milliseconds
	Stamped int64
	Fine    uint8 // 1 if a stamp had a fraction of a second, else 0
	Stamps  uint8 // 1: the clock follows the stamps; 0: it counts lines
	Start   int64
	Pace    float64
	Longest float64
	Ahead   float64 // largest forward step between stamps, in milliseconds; decays over time
	Back    float64 // largest backward step between stamps, in milliseconds; decays over time
}

const (
	// paceLines is the number of lines over which the mean gap between lines is computed.
	paceLines = 4096
	// linesASecond is the maximum rate of lines per second at which the clock follows the stamps.
	// In a faster log, the clock counts lines.
	linesASecond = 50
	// backMillis separates two causes of a stamp that is earlier than the last stamp. If the
	// difference is at most backMillis milliseconds, the line is out of order. Otherwise the clock
	// was set back.
	backMillis = 5000
	// setBackMost is the largest backward step, in milliseconds, that counts as a clock set back. A
	// stamp after a larger step belongs to the next day, for example after a night without lines.
	setBackMost = dayMillis / 6
	// The clock limits a gap between two lines to max(longestTimes * longest gap, paceTimes * mean
	// gap). So one pause or clock jump hardly changes the statistics of the gaps.
	longestTimes = 4
	paceTimes    = 20

	// aheadMillis and backLeast, in milliseconds, are the largest forward and backward steps that
	// are never reported as jumps. A reported jump is several times larger.
	aheadMillis = 150_000
	backLeast   = 15_000
	stepFades   = 1 - 1./16384
)

// take advances the clock to the n-th line, and returns the step from the last stamp to the stamp
// of this line. A stamp that is more than setBackMost earlier than the last stamp belongs to the
// next day.
func (c *clock) take(of stamp, n int64) (step int64) {
	before := c.now(n - 1)
	if of.to > 0 {
		step = c.stamp(of.millis)
	}
	if n == warmLines {
		if c.follows(n) {
			c.Stamps = 1
		}
		c.Start = c.now(n)
	}
	if n > warmLines {
		gap := float64(c.now(n) - before)
		if n > warmLines+1 {
			gap = min(gap, max(longestTimes*c.Longest, paceTimes*c.Pace, coarseMillis))
		}
		c.Pace += (gap - c.Pace) / float64(min(n-warmLines, paceLines))
		c.Longest = max(float64(c.Longest*(1-1./paceLines)), gap)
	}
	return step
}

// follows reports whether most of the first n lines have stamps and are slow enough for a clock
// that follows stamps.
func (c *clock) follows(n int64) bool {
	return 2*c.Stamped > n && c.Time*linesASecond > n*1000
}

func (c *clock) stamp(millis int64) (step int64) {
	if c.Stamped == 0 {
		c.Day = millis
	}
	c.Stamped++
	if millis%1000 != 0 {
		c.Fine = 1
	}
	step = millis - c.Day
	switch {
	case step < -setBackMost:
		step += dayMillis
	case step >= dayMillis-setBackMost:
		step -= dayMillis
	}
	c.Time += max(0, step)
	if step > 0 || step < -backMillis {
		c.Day = millis
	}
	return step
}

// jump records a step between two stamps. Of the jump and the line's numbers, the detector reports
// only the one with the highest score. In the formula, largest is the largest earlier step in the
// same direction, lg is log2, and steps are in seconds:
//
//	score = 1.5 lg(step / max(largest, 150)) for a forward step
//	score = 2 lg(step / max(largest, 15)) for a backward step
func (d *Detector) jump(l *line, of stamp, step int64) {
	c := &d.clock
	c.Ahead, c.Back = c.Ahead*stepFades, c.Back*stepFades
	subject, largest, least, times := Ahead, &c.Ahead, float64(aheadMillis), 1.5
	if step < 0 {
		subject, largest, least, times, step = Back, &c.Back, backLeast, 2, -step
	}
	millis := float64(step)
	if known := max(*largest, least); millis > known && l.n > warmLines && 2*c.Stamped > l.n {
		if score := times * lg(millis/known); score > l.outlier.score {
			l.outlier = outlier{score: score, value: millis / 1000, largest: *largest / 1000}
			l.outlier.of = event{subject: subject, from: of.from, to: of.to}
		}
	}
	*largest = max(*largest, millis)
}

func (c *clock) now(n int64) int64 {
	if c.Stamps == 1 {
		return c.Time
	}
	return n
}
