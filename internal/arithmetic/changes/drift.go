package changes

import "math"

// A drift is a lasting slow change: a share grows, or the size of numbers changes. The detector
// searches in blocks of 32 words or numbers. It follows the shares of frequent words and
// templates, and the numbers at a place. For each of them, the formulas use three values:
//
//   - x is the value of a block. For a share, x is the number of events among 32 words at the
//     place. For numbers v, x is the mean of lg(.0001 + v).
//   - m is the mean of x over n earlier blocks.
//   - s is the standard deviation of x, estimated as 1.25 times the mean deviation.
//
// A block changes a cumulative sum S by
//
//	share:         (x ln 2.5 - 1.5 m') / max(1, s^2 / m)     with m' = m + 2 sqrt(m / n)
//	numbers, up:   (x - m) / max(s, .1) - 1/2
//	numbers, down: (m - x) / max(s, .1) - 1/2
//
// Each step is limited to -2.5..2.5, so that a burst changes S little. The first formula is the
// logarithm of the likelihood ratio for a share 2.5 times as high. The mean m includes new blocks
// only when S is 0 again. After 128 blocks the new level counts as the usual level. A drift is
// reported if
//
//   - it is slow: it lasts eight blocks or more, and the value changes by a factor of 1.3 to 8;
//   - its past is known: the log has 2,000 lines, and 32 blocks came before the drift.

const (
	driftSets     = 48
	driftSet      = 4
	driftsMost    = driftSets * driftSet
	driftTicks    = 32 // ticks of a place's clock in a block
	driftEvents   = 8
	driftFirst    = 8
	driftKnown    = 32
	driftMemory   = 256
	driftSlow     = 8   // minimum length of a drift, in blocks
	driftLong     = 128 // maximum length of a drift, in blocks
	driftLines    = 2000
	driftQuiet    = 500
	driftStale    = 512 // after this many lines without an event, the worth of a cell is halved
	driftOdds     = 2.5
	lnDriftOdds   = .9162907318741551
	driftClip     = 2.5
	driftSlack    = .5
	driftMost     = 100
	driftLeast    = 1.3
	driftTimes    = 8
	numberSD      = .1
	shareLeast    = .1
	deviationSD   = 1.25
	trendMost     = .6 // maximum Trend of drifting numbers; the Trend of a counter is larger
	trendMemory   = 16
	driftEventful = driftTicks * 2 / 3
)

// drift is the statistics of a key or of a place's numbers, to detect a slow change.
type drift struct {
	Tag       uint32 // 0 if the cell is free; the second bit is 1 if the cell follows numbers
	Block     uint32 // index of the current block; for numbers, how many numbers the block has
	Line      uint32
	Sum       float32
	Mean      float32
	Deviation float32
	// cumulative sum of the evidence for a drift; negative if the numbers fall
	S      float32
	Total  float32 // sum of the blocks' values since S was last 0
	Offs   float32
	Trend  float32 // moving mean of the sign of a block's difference from Mean
	Blocks uint16
	Since  uint16 // number of blocks since S was last 0
}

type drifting struct {
	score float64
	of    event
	drift // the cell's content when the drift was found
	cell  *drift
}

func (c *drift) numbers() bool { return c.Tag&2 != 0 }

// driftAt returns the cell of a tag, and whether the tag already had a cell. A new tag gets a free
// cell of its set. If none is free, the tag replaces the least valuable cell, provided that the tag
// is worth more. Otherwise driftAt returns a nil cell.
func (d *Detector) driftAt(tag uint32, worth float32, n int64) (cell *drift, found bool) {
	i := home(tag, driftSets) * driftSet
	set := d.drifts[i : i+driftSet]
	for i := range set {
		c := &set[i]
		if c.Tag == tag {
			return c, true
		}
		if its := c.worth(n); its < worth {
			cell, worth = c, its
		}
	}
	return cell, false
}

// worth returns half the mean count of a key, and less if the key has not occurred lately. A new
// tag takes the cell only if the tag is worth more.
func (c *drift) worth(n int64) float32 {
	switch {
	case c.Tag == 0:
		return -1
	case c.numbers():
		return numbersWorth / 2 * driftStale / (driftStale + float32(uint32(n)-c.Line))
	case c.Mean > driftEventful: // the key is so frequent that its share cannot grow much
		return 0
	}
	return c.Mean / 2 * driftStale / (driftStale + float32(uint32(n)-c.Line))
}

const numbersWorth = driftTicks / 2

// follow adds an event of a key to the key's statistics.
func (d *Detector) follow(l *line, p *place, e *key, of event) {
	total := e.Before + float32(e.Count)
	mean := total / float32(min(p.N, clockMemory)) * driftTicks
	if total < driftEvents || mean > driftEventful {
		return
	}
	tag := of.tag &^ 2
	c, found := d.driftAt(tag, mean, l.n)
	if c == nil {
		return
	}
	block := p.N / driftTicks
	// The key is new, or its place was replaced and counts from 0 again.
	if !found || c.Block > block {
		*c = drift{
			Tag: tag, Block: block, Mean: mean, Blocks: uint16(min(block, driftFirst)),
			Deviation: float32(math.Sqrt(float64(mean))) / deviationSD,
		}
	}
	for most := driftLong; c.Block < block && most > 0; most-- {
		step := (float32(c.Sum*lnDriftOdds) - float32((driftOdds-1)*c.most())) / c.burst()
		c.end(step, -driftClip)
		c.Block++
	}
	c.Block, c.Line = block, uint32(l.n)
	c.Sum++
	now, most := c.now(), c.most()
	if c.S > 0 && !p.quiet(l.n) && now > driftLeast*most && now < driftTimes*c.Mean {
		d.drifted(l, c, of)
	}
}

// most returns a share's mean plus two standard errors: the highest plausible share before the
// drift.
func (c *drift) most() float32 {
	return c.Mean + float32(2*math.Sqrt(float64(c.Mean/float32(max(c.Blocks, 1)))))
}

// burst returns the ratio of the observed variance of a share between blocks to the variance of
// independent events, at least 1.
func (c *drift) burst() float32 {
	sd := deviationSD * c.Deviation
	return max(1, sd*sd/max(c.Mean, shareLeast))
}

// followNumber adds a number to the statistics of a place. x is the logarithm of the number.
func (d *Detector) followNumber(l *line, p *place, of event, x float64) {
	if l.n <= warmLines || p.Values < valuesKnown {
		return
	}
	tag := p.Tag | 2
	c, found := d.driftAt(tag, numbersWorth, l.n)
	if c == nil {
		return
	}
	if !found {
		*c = drift{Tag: tag}
	}
	c.Line = uint32(l.n)
	c.Sum += float32(x)
	if c.Block++; c.Block < driftTicks {
		return
	}
	c.Block, c.Sum = 0, c.Sum/driftTicks
	if c.Blocks == 0 {
		c.Mean = c.Sum
	}
	z := (c.Sum - c.Mean) / max(deviationSD*c.Deviation, numberSD)
	c.end(z-driftSlack, -z-driftSlack)
	moved := distance(c.now(), c.Mean)
	const least, most = .3785, 3 // base-2 logarithms of driftLeast and driftTimes
	if c.S != 0 && distance(c.Trend, 0) < trendMost && least < moved && moved < most {
		d.drifted(l, c, of)
	}
}

// end closes a block of words or numbers. The sum S rises by up or falls by down, each limited to
// driftClip.
func (c *drift) end(up, down float32) {
	x := c.Sum
	c.Sum = 0
	up, down = min(max(-driftClip, up), driftClip), min(max(-driftClip, down), driftClip)
	switch {
	case c.Blocks < driftFirst:
	case c.S > 0:
		c.S = max(0, c.S+up)
	case c.S < 0:
		c.S = min(0, c.S-down)
	default:
		c.S = max(0, up) - max(0, down)
	}
	c.S = min(max(-driftMost, c.S), driftMost)
	if c.Since == 0 && c.S == 0 {
		sign := float32(0)
		if x > c.Mean {
			sign = 1
		} else if x < c.Mean {
			sign = -1
		}
		c.Trend += (sign - c.Trend) / float32(min(c.Blocks+1, trendMemory))
	}
	c.Total += x
	c.Offs += distance(x, c.Mean)
	c.Since++
	if c.S == 0 {
		c.learn()
	} else if c.Since == driftLong {
		c.settle()
	}
}

// learn adds the blocks since S was last 0 to the statistics Mean and Deviation.
func (c *drift) learn() {
	since := float32(c.Since)
	c.Blocks = min(c.Blocks+c.Since, driftMemory)
	weight := min(1, since/float32(c.Blocks))
	c.Deviation += float32((c.Offs/since - c.Deviation) * weight)
	c.Mean += float32((c.now() - c.Mean) * weight)
	c.Total, c.Offs, c.Since = 0, 0, 0
}

func (c *drift) settle() {
	c.Mean = c.now()
	c.S, c.Total, c.Offs, c.Since, c.Blocks = 0, 0, 0, 0, driftFirst
}

// now returns the mean value of the blocks since S was last 0.
func (c *drift) now() float32 { return c.Total / float32(max(c.Since, 1)) }

func distance(a, b float32) float32 { return max(a-b, b-a) }

func (d *Detector) drifted(l *line, c *drift, of event) {
	score := float64(distance(c.S, 0))
	switch {
	case l.n < driftLines:
		if score > driftLimits.floor {
			c.settle()
		}
	case c.Blocks >= driftKnown && c.Since >= driftSlow && score > l.drift.score:
		l.drift = drifting{score: score, drift: *c, cell: c, of: of}
	}
}

func (d *Detector) tellDrift(l *line, each func(*Change)) {
	s := &l.drift
	report := func() { each(d.driftOf(l)) }
	if !d.driftsTold.tell(driftLimits, l.n, &d.driftQuiet, s.score, report) {
		return
	}
	d.places[s.of.at].Told = max(1, uint32(l.n))
	if s.cell.Tag == s.Tag { // false if another key now uses the cell
		s.cell.settle()
	}
}
