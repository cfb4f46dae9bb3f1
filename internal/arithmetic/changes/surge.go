package changes

// A surge means that a key, such as a word or a template, is far more frequent than before. Each
// key has a cumulative sum G over its events, which needs no fixed window. An excursion is a run of
// events during which G is above 0. Let c be the key's clock when the excursion begins. Let B be
// the number of the key's events in the C = min(c, 8192) ticks before. Let
//
//	q = (B + 4) / (C + 4)      drain = ln(1 + 63 q)
//
// An event that comes d ticks after the key's last event changes the sum:
//
//	G = G - f d drain + f ln 64, in 0..100
//
// G is the logarithm of the likelihood ratio of two hypotheses: the key's odds are 64 q / (1 - q),
// or they are q / (1 - q). The factor f discounts bursts. Let same be the share of words at the
// place that repeat the previous word there, and expected this share for independent words. Then
//
//	f = min(1, (1.02 - same) / (1.02 - expected))
//
// If an excursion begins with a number near the last number at its place, f is 0. Such a number is
// a counter or an hour that advances. For each number slightly above all earlier numbers of its
// place, f is also 0: it may be a counter between other numbers.
//
// An excursion ends when G is 0, when it pauses, or when it is long. Then B includes its events.
// Let M be the highest earlier peak of this key or of another key at its place. A key is reported
// if G rises to a peak well above M:
//
//	score = (G - 4 - 1.75 M) / 2

const (
	clockMemory = 8192
	prior       = 4
	odds        = 64
	lnOdds      = 4.1588830833596715
	sumMost     = 100
	rivalMost   = 60 // peaks above 60 count as 60 when keys are compared
	burstMemory = 1024
	burstLeast  = .02
	counterNear = .25 // maximum difference, in octaves, between successive numbers of a counter

	pauseEvents = 4
	pauseTicks  = 64
	pauseTimes  = 16
	lengthMost  = 4096

	scoreFloor = 4
	rivalTimes = 1.75
	bestFades  = .998
	rivalFades = 1. / 16384
	fadeLines  = 4096

	templatePreferred = 3

	tellEvents = 3
	placeQuiet = 500
	quietLines = 64
)

// event is an occurrence of a key in the current line.
type event struct {
	tag       uint32
	at        int
	subject   Subject
	from, to  int
	before    int // offset in the line of the text to show, which begins with the previous word
	said      [2]int
	counter   bool
	record    bool    // the number is slightly above all earlier numbers of its place
	explained float64 // for a level: the sum G of the same number counted as a word
}

// which is the index of an event's statistics in Repeats and Last: 1 for a level, else 0. A number
// at a place is two events: a word and a level.
func (of *event) which() int {
	if of.subject == Level {
		return 1
	}
	return 0
}

// preferred returns the margin by which this event's score must exceed the other event's score. A
// shape needs a margin over a template, since the template is more informative.
func (of *event) preferred(other *event) float64 {
	if of.subject == Shape && other.subject == Template {
		return templatePreferred
	}
	return 0
}

type surging struct {
	score float64
	key   key
	cell  *key
	of    event
	c     uint32
}

// count counts an event and returns the key's sum G. Several events of a key in one line count
// once.
func (d *Detector) count(l *line, of event) (sum float64) {
	p := &d.places[of.at]
	n, c := l.n, p.N
	e, found := d.keyAt(of.tag, n)
	if found && e.Line == uint32(n) {
		return float64(e.Sum)
	}
	// The key is new, or its place was replaced and counts from 0 again.
	if !found || e.Clock > c {
		*e = key{Tag: of.tag, Clock: c, Began: uint32(n), Subject: of.subject}
	}
	if n <= warmLines || c <= warmTicks {
		e.Before++
		e.Line, e.Clock, e.Began, e.Length = uint32(n), c, uint32(n), 0
	} else {
		d.excursion(l, p, e, of)
		if of.subject != Level && of.subject != Shape {
			d.follow(l, p, e, of)
		}
	}
	d.beat(l, e, of)
	return float64(e.Sum)
}

func (d *Detector) excursion(l *line, p *place, e *key, of event) {
	n, c := l.n, p.N
	recent := float64(min(c, clockMemory))
	f := p.discount(of.tag, of.which(), min(1, (float64(e.Before)+1)/(recent+2)))
	if of.record {
		f = 0
	}
	gap := c - e.Clock
	sum := float64(e.Sum) - float64(float64(gap)*e.drain()*f)
	if e.over(sum, gap) {
		e.end(c, gap)
		e.Clock = c // drain computes the start of the excursion as Clock - Length
		e.Began = uint32(n)
		if of.counter {
			f = 0
		}
		sum = -float64(e.drain() * f)
	} else {
		e.Length = uint16(min(uint32(e.Length)+gap, countMost))
	}
	sum = min(max(0, sum+float64(lnOdds*f)), sumMost)
	e.Count = min(e.Count, countMost-1) + 1
	e.Line, e.Clock, e.Sum = uint32(n), c, float32(sum)
	if peak := uint16(sum * peakUnits); peak > e.Peak && e.Flags&flagTold == 0 {
		d.rise(l, p, e, of, sum)
		e.Peak = peak
	}
}

// drain returns the amount by which G falls per tick of the clock. The amount depends on the key's
// share before the excursion.
func (e *key) drain() float64 {
	recent := float64(min(e.Clock-uint32(e.Length), clockMemory))
	return float64(float32(ln(1 + float64((odds-1)*min(1,
		(float64(e.Before)+prior)/(recent+prior))))))
}

// over reports whether the excursion ended before this event.
func (e *key) over(sum float64, gap uint32) bool {
	length := uint64(e.Length) + 1
	return sum <= 0 || e.Count == 0 || length > lengthMost ||
		e.Count >= pauseEvents && gap > pauseTicks &&
			uint64(gap)*uint64(e.Count) > pauseTimes*length
}

// end closes an excursion and starts a new one. It adds the closed excursion's events to the
// remembered events B.
func (e *key) end(c, gap uint32) {
	e.Before += float32(e.Count)
	if c > clockMemory {
		length := float32(gap) + float32(e.Length)
		e.Before *= clockMemory / (clockMemory + length)
	}
	if e.Count > 0 {
		e.Best = max(uint16(float64(e.Best)*bestFades), e.Peak)
	}
	e.Length, e.Count, e.Peak = 0, 0, 0
	e.Flags &^= flagTold
}

// discount returns the factor f that discounts bursts. It also records an event of a key with share
// q.
func (p *place) discount(tag uint32, which int, q float64) float64 {
	r := &p.Repeats[which]
	f := min(1, (1+burstLeast-float64(r.Same))/(1+burstLeast-float64(r.Expected)))
	weight := 1 / float32(min(p.N, burstMemory))
	again := float32(0)
	if p.Last[which] == part(tag) {
		again = 1
	}
	r.Same += float32((again - r.Same) * weight)
	r.Expected += float32((float32(q) - r.Expected) * weight)
	p.Last[which] = part(tag)
	return f
}

// rise records a new peak of a key. It stores the peak for the line's report if it is the strongest
// of the line.
func (d *Detector) rise(l *line, p *place, e *key, of event, sum float64) {
	fade := 1 - float32(float32(min(uint32(l.n)-p.Raised, fadeLines))*rivalFades)
	p.First, p.Second, p.Raised = p.First*fade, p.Second*fade, uint32(l.n)
	rival := p.First
	if p.Highest == part(of.tag) {
		rival = p.Second
	}
	rival = max(rival, float32(e.Best)/peakUnits)
	if e.Count >= tellEvents && e.Flags&flagTold == 0 && !p.quiet(l.n) {
		score := (sum - scoreFloor - float64(rivalTimes*float64(rival))) / 2
		if score > l.surge.score+of.preferred(&l.surge.of) {
			l.surge = surging{score: score, key: *e, cell: e, of: of, c: p.N}
		}
	}
	if sum <= of.explained {
		return
	}
	switch sum := float32(min(sum, rivalMost)); {
	case p.Highest == part(of.tag):
		p.First = max(p.First, sum)
	case sum > p.First:
		p.First, p.Second, p.Highest = sum, p.First, part(of.tag)
	case sum > p.Second:
		p.Second = sum
	}
}

func (d *Detector) tellSurge(l *line, each func(*Change)) {
	s := &l.surge
	report := func() { each(d.surgeOf(l)) }
	if !d.surges.tell(surgeLimits, l.n, &d.surgeQuiet, s.score, report) {
		return
	}
	if s.cell.Tag == s.key.Tag { // false if another key now uses the cell
		s.cell.Flags |= flagTold
	}
	p := &d.places[s.of.at]
	p.Told = max(1, uint32(l.n))
	if p.Highest == part(s.of.tag) { // a reported peak must not suppress reports of other keys
		p.First, p.Second, p.Highest = p.Second, 0, 0
	}
}
