package changes

import "math"

// A drift is a share that grows slowly, or numbers whose size changes slowly, and stays. The
// detector searches in blocks of 32 ticks or numbers. For a key, x is its number of events in 32
// ticks of its place's clock. For a place's numbers, x is the mean of lg(.0001 + v) over 32 numbers
// v. Let m be the mean of the earlier blocks and s their standard deviation, estimated as 1.25
// times their mean deviation. A block with value x changes a cumulative sum S by
//
//	share:   (x ln 2.5 - 1.5 m') / max(1, s^2 / m)
//	numbers: (x - m) / max(s, .1) - 1/2, or (m - x) / max(s, .1) - 1/2 downwards
//
// where m' = m + 2 sqrt(m / n) for a mean of n blocks. Each step is limited to -2.5..2.5, so that a
// burst changes S little. The first formula is the logarithm of the likelihood ratio for a share
// 2.5 times as high. The mean does not include a block until S is 0 again. After 128 blocks the new
// level counts as the usual one. A drift is reported if
//
//   - it is slow: it lasts eight blocks or more, and the value changes by a factor of 1.3 to 8;
//   - its past is known: the log has 2,000 lines, and 32 blocks came before the drift.

const (
	driftSets     = 48
	driftSet      = 4 // cells in a set
	driftsMost    = driftSets * driftSet
	driftTicks    = 32  // ticks in a block
	driftEvents   = 8   // events of a key before it is tracked
	driftFirst    = 8   // blocks before S can differ from 0
	driftKnown    = 32  // blocks before a drift is reported
	driftMemory   = 256 // blocks in the mean
	driftSlow     = 8   // minimum blocks of a drift
	driftLong     = 128 // maximum blocks of a drift
	driftLines    = 2000
	driftQuiet    = 500 // minimum lines between two reports
	driftStale    = 512 // lines without an event after which a cell is worth half as much
	driftOdds     = 2.5
	lnDriftOdds   = .9162907318741551
	driftClip     = 2.5
	driftSlack    = .5
	driftMost     = 100 // maximum of S
	driftLeast    = 1.3 // minimum factor by which a drift changes a value
	driftTimes    = 8
	numberSD      = .1 // minimum standard deviation of a block of numbers
	shareLeast    = .1 // minimum divisor of a variance, see burst
	deviationSD   = 1.25
	trendMost     = .6 // maximum Trend of numbers that can drift; counters exceed it
	trendMemory   = 16 // blocks in Trend
	driftEventful = driftTicks * 2 / 3
)

// drift tracks a key, or the numbers of a place.
type drift struct {
	Tag       uint32  // 0: the cell is free; the second bit is 1 for numbers
	Block     uint32  // index of the open block; for numbers, the count of numbers in it
	Line      uint32  // the last line with the key, modulo 2^32
	Sum       float32 // sum of the open block
	Mean      float32 // mean of a block
	Deviation float32 // mean deviation of a block from Mean
	S         float32 // the cumulative sum; negative if numbers fall
	Total     float32 // sum of the blocks since S was 0
	Offs      float32 // sum of the distances of these blocks from Mean
	Trend     float32 // mean sign of a block's difference from Mean
	Blocks    uint16  // number of blocks in Mean
	Since     uint16  // number of blocks since S was 0
}

// drifting is the strongest drift that a line shows.
type drifting struct {
	score float64
	of    event
	drift // a copy from the time of the report
	cell  *drift
}

func (c *drift) numbers() bool { return c.Tag&2 != 0 }

// driftAt returns the cell of a tag, and whether the tag already had a cell. A new tag gets a free
// cell, or the least valuable cell of its set if the tag is worth more. Otherwise cell is nil.
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

// worth returns half the mean count of a key, less if the key has not come lately. A new key must
// be worth more, so halving keeps cells from changing owners often.
func (c *drift) worth(n int64) float32 {
	switch {
	case c.Tag == 0:
		return -1
	case c.numbers():
		return numbersWorth / 2 * driftStale / (driftStale + float32(uint32(n)-c.Line))
	case c.Mean > driftEventful: // the key's share is too high to grow by much
		return 0
	}
	return c.Mean / 2 * driftStale / (driftStale + float32(uint32(n)-c.Line))
}

const numbersWorth = driftTicks / 2

// follow adds an event of a key at a place.
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
	if !found || c.Block > block { // the key is new, or its place was lost
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

// burst returns how many times a share's variance between blocks is that of independent events, at
// least 1.
func (c *drift) burst() float32 {
	sd := deviationSD * c.Deviation
	return max(1, sd*sd/max(c.Mean, shareLeast))
}

// followNumber adds a number at a place; x is its logarithm.
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
	const least, most = .3785, 3 // lg of driftLeast and driftTimes
	if c.S != 0 && distance(c.Trend, 0) < trendMost && least < moved && moved < most {
		d.drifted(l, c, of)
	}
}

// end ends a block. It raises S by up or lowers S by down, each at most driftClip.
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

// learn adds the blocks since S was 0 to the mean.
func (c *drift) learn() {
	since := float32(c.Since)
	c.Blocks = min(c.Blocks+c.Since, driftMemory)
	weight := min(1, since/float32(c.Blocks))
	c.Deviation += float32((c.Offs/since - c.Deviation) * weight)
	c.Mean += float32((c.now() - c.Mean) * weight)
	c.Total, c.Offs, c.Since = 0, 0, 0
}

// settle makes the new level the usual one.
func (c *drift) settle() {
	c.Mean = c.now()
	c.S, c.Total, c.Offs, c.Since, c.Blocks = 0, 0, 0, 0, driftFirst
}

// now returns the mean of the blocks since S was 0.
func (c *drift) now() float32 { return c.Total / float32(max(c.Since, 1)) }

func distance(a, b float32) float32 { return max(a-b, b-a) }

// drifted keeps a drift for the line's report if it is the strongest.
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

// tellDrift reports the line's strongest drift, under the same conditions as tellSurge.
func (d *Detector) tellDrift(l *line, each func(*Change)) {
	s := &l.drift
	report := func() { each(d.driftOf(l)) }
	if !d.driftsTold.tell(driftLimits, l.n, &d.driftQuiet, s.score, report) {
		return
	}
	d.places[s.of.at].Told = max(1, uint32(l.n))
	if s.cell.Tag == s.Tag { // otherwise another key has taken the cell
		s.cell.settle()
	}
}
