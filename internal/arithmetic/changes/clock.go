package changes

// clock is the log's own time in milliseconds, from the time stamps in its lines. If the log has no
// usable stamps, the clock counts lines.
type clock struct {
	Time    int64 // milliseconds since the first stamp
	Day     int64 // the last stamp's time of day, in milliseconds
	Stamped int64 // lines with a stamp
	Fine    uint8 // 1: a stamp had a fraction of a second
	Stamps  uint8 // 1: the clock follows the stamps; 0: it counts lines
	Start   int64 // the clock at line warmLines
	Pace    float64
	Longest float64 // longest gap between two lines; older gaps fade
	Ahead   float64 // largest forward step of a stamp, in milliseconds; older steps fade
	Back    float64 // largest backward step, likewise
}

const (
	// paceLines is the number of lines over which the mean gap between lines is taken.
	paceLines = 4096
	// If a log has more than linesASecond lines a second, the clock counts lines instead of
	// following the stamps.
	linesASecond = 50
	// A stamp at most backMillis milliseconds earlier than the last one means that the line is out
	// of order. A stamp earlier than that means that the clock was set back.
	backMillis = 5000
	// A clock is set back by at most setBackMost milliseconds. A larger step back means that the
	// stamp belongs to the next day, for example after a night without lines.
	setBackMost = dayMillis / 6
	// A gap between two lines is limited to the larger of longestTimes the longest gap and
	// paceTimes the mean gap. So one pause or clock jump does not change what is usual.
	longestTimes = 4
	paceTimes    = 20

	// Steps of up to aheadMillis forward or backLeast back, in milliseconds, are never reported as
	// jumps. A reported jump is several times larger.
	aheadMillis = 150_000
	backLeast   = 15_000
	stepFades   = 1 - 1./16384
)

// take advances the clock to the n-th line, and returns the step from the last stamp to this one. A
// stamp more than setBackMost earlier than the last one belongs to the next day.
func (c *clock) take(of stamp, n int64) (step int64) {
	before := c.now(n - 1)
	if of.to > 0 {
		step = c.stamp(of.millis)
	}
	if n == warmLines {
		if 2*c.Stamped > n && c.Time*linesASecond > n*1000 {
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

// jump records a step of the stamps. A line reports its jump or one of its numbers, whichever has
// the higher score. largest is the largest earlier step in the same direction.
//
//	score = 1.5 lg(step / max(largest, 150 s)) ahead, 2 lg(step / max(largest, 15 s)) back
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

// now returns the clock's time at the n-th line.
func (c *clock) now(n int64) int64 {
	if c.Stamps == 1 {
		return c.Time
	}
	return n
}
