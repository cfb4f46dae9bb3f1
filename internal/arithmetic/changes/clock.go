package changes

// clock is the log's own time in milliseconds, from the stamps of its lines. Without usable
// stamps it counts lines.
type clock struct {
	Time    int64 // since the first stamp
	Day     int64 // milliseconds since midnight, of the last stamp
	Stamped int64 // lines with a stamp
	Fine    uint8 // 1: a stamp had a fraction of a second
	Stamps  uint8 // 1: stamps are the clock
	Start   int64 // the clock at line warmLines
	Pace    float64
	Longest float64 // longest gap between two lines, fading
	Ahead   float64 // largest forward step of a stamp, in milliseconds, fading
	Back    float64 // largest step back
}

const (
	// paceLines is the memory, in lines, of the mean gap between lines.
	paceLines = 4096
	// A clock of stamps has at most linesASecond lines a second.
	linesASecond = 50
	// A stamp at most backMillis before the last one is out of order. Further back, the clock was
	// set back.
	backMillis = 5000
	// A clock is set back by at most setBackMost milliseconds. A stamp further back belongs to
	// the next day, as after a night without lines.
	setBackMost = dayMillis / 6
	// A gap between two lines counts at most as longestTimes the longest or paceTimes the mean
	// gap. So one pause or clock jump does not change what is usual.
	longestTimes = 4
	paceTimes    = 20

	// The largest steps that are never reported as jumps. A report needs a step several times
	// longer.
	aheadMillis = 150_000
	backLeast   = 15_000
	stepFades   = 1 - 1./16384
)

// take advances the clock to the n-th line, and returns the step from the last stamp to this one.
// A stamp more than setBackMost before the last one belongs to the next day.
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

// jump records a step of the stamps. A step far larger than all before, forward or back, competes
// with the line's numbers for the report.
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

// now returns the clock at the n-th line.
func (c *clock) now(n int64) int64 {
	if c.Stamps == 1 {
		return c.Time
	}
	return n
}
