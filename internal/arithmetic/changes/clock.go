package changes

// clock is the log's own time in milliseconds, as the stamps of its lines say it, or, if they do
// not, its lines.
type clock struct {
	Time    int64 // since the first stamp
	Day     int64 // milliseconds since midnight, of the last stamp
	Stamped int64 // lines with a stamp
	Fine    uint8 // 1: a stamp had a fraction of a second
	Stamps  uint8 // 1: stamps are the clock
	Start   int64 // the clock at line warmLines
	Pace    float64
	Longest float64 // gap between two lines, which fades
}

const (
	// paceLines is the memory of the mean gap between lines.
	paceLines = 4096
	// A clock of stamps has at most linesASecond lines a second.
	linesASecond = 50
	// A stamp that is at most backMillis before the last one is out of order; one that is further
	// before it says that the clock was set back.
	backMillis = 5000
)

// take moves the clock to a line, the n-th. A stamp half a day before the last one is of the next
// day.
func (c *clock) take(of stamp, n int64) {
	before := c.now(n - 1)
	if of.to > 0 {
		c.stamp(of.millis)
	}
	if n == warmLines {
		if 2*c.Stamped > n && c.Time*linesASecond > n*1000 {
			c.Stamps = 1
		}
		c.Start = c.now(n)
	}
	if n > warmLines {
		gap := float64(c.now(n) - before)
		c.Pace += (gap - c.Pace) / float64(min(n-warmLines, paceLines))
		c.Longest = max(float64(c.Longest*(1-1./paceLines)), gap)
	}
}

func (c *clock) stamp(millis int64) {
	if c.Stamped == 0 {
		c.Day = millis
	}
	c.Stamped++
	if millis%1000 != 0 {
		c.Fine = 1
	}
	gap := millis - c.Day
	if gap < -dayMillis/2 {
		gap += dayMillis
	}
	if gap > 0 && gap < dayMillis/2 {
		c.Time += gap
	}
	if gap > 0 || gap < -backMillis {
		c.Day = millis
	}
}

// now returns the clock at the n-th line.
func (c *clock) now(n int64) int64 {
	if c.Stamps == 1 {
		return c.Time
	}
	return n
}
