package changes

import "math"

// A silence means that a key, such as a word or a template, occurred regularly and stopped. The
// key's events are beats. The gaps between its beats have a mean, a mean deviation and a maximum,
// which decays. An event that follows a beat within a quarter of the mean gap belongs to that
// beat. A key is regular if:
//
//   - its mean covers n >= 8 gaps, and the deviation is below .3 n/(n + 4) of the mean;
//   - its gaps cover half of the time since line 300, or it had at least 1,000 gaps;
//   - it is rare, with a mean gap of at least eight lines, so that the log continues without it;
//   - the clock is fine enough: the mean gap is 3 s or more if stamps are whole seconds.
//
// The silence is reported when the gap exceeds max(1.4 longest, 2.1 mean). If the log has grown by
// less than half the lines of a mean gap meanwhile, the whole log pauses, and no silence is
// reported. Keys that fall silent at the same time are reported together, once until they return.
// A key whose last event was before a reported silence belongs to that silence.

const (
	silenceLines    = 3 * warmLines / 2
	sameBeat        = 1. / 4
	beatsFirst      = 4
	beatsMemory     = 32
	beatsPrior      = 4
	beatsLeast      = 8
	beatsProof      = 1000
	beatsMost       = 1<<16 - 1
	deviationMost   = .3
	longestFades    = .998
	lifeLeast       = .5
	rareLines       = 8
	coarseMillis    = 3000
	silentLongest   = 1.4
	silentMean      = 2.1
	cameLeast       = .5
	lookAgainMean   = .1
	nothingDue      = math.MaxInt64
	wholeLogLongest = 2
	wholeLogMean    = 20
)

func (d *Detector) beat(l *line, e *key, of event) {
	e.Flags &^= flagSilent
	if l.n <= warmLines {
		return
	}
	t := d.clock.now(l.n)
	if e.Flags&flagBeaten == 0 {
		e.Flags |= flagBeaten
		e.Beat = uint32(t)
		return
	}
	gap := float32(uint32(t) - e.Beat)
	if gap == 0 || e.Beats > 0 && gap < sameBeat*e.Mean {
		return
	}
	e.Beat = uint32(t)
	if e.Beats > 0 && e.Beats < beatsFirst && gap > beatsFirst*e.Mean {
		e.Beats, e.Mean, e.Deviation, e.Longest = 1, gap, 0, gap
		return
	}
	e.Beats = min(e.Beats, beatsMost-1) + 1
	weight := 1 / float32(min(e.Beats, beatsMemory))
	if e.Beats > 1 {
		off := max(gap-e.Mean, e.Mean-gap)
		e.Deviation += float32((off - e.Deviation) * weight)
	}
	e.Mean += float32((gap - e.Mean) * weight)
	e.Longest = max(float32(e.Longest*longestFades), gap)
	if of.subject != Level && e.even() && d.regular(e, t) {
		d.due = min(d.due, t+int64(e.patience()))
		d.keepText(l, e, of)
	}
}

// even reports whether a key has had enough gaps and all gaps have similar lengths.
func (e *key) even() bool {
	n := float32(e.Beats)
	return e.Beats >= beatsLeast && e.Deviation*(n+beatsPrior) < float32(deviationMost*n*e.Mean)
}

// patience returns the gap after which an evenly spaced key counts as silent.
func (e *key) patience() float32 {
	return max(float32(silentLongest*e.Longest), float32(silentMean*e.Mean))
}

// regular reports whether a silence of an evenly spaced key is worth a report. The key must have
// occurred often enough, and its gaps must be long enough.
func (d *Detector) regular(e *key, t int64) bool {
	mean := float64(e.Mean)
	lives := e.Beats >= beatsProof ||
		float64(e.Beats)*mean >= lifeLeast*float64(t-d.clock.Start)
	coarse := d.clock.Stamps == 1 && d.clock.Fine == 0 && mean < coarseMillis
	return lives && !coarse && mean >= rareLines*d.clock.Pace
}

func (d *Detector) tellSilence(l *line, each func(*Change)) {
	t := d.clock.now(l.n)
	if t <= d.due || l.n < silenceLines {
		return
	}
	d.due = nothingDue
	var silent *key
	for i := range d.keys {
		e := &d.keys[i]
		if e.Tag == 0 || e.Subject == Level || e.Flags&flagSilent != 0 || !e.even() ||
			!d.regular(e, t) {
			continue
		}
		if due := t - int64(uint32(t)-e.Beat) + int64(e.patience()); due >= t {
			d.due = min(d.due, due)
			continue
		}
		if float64(uint32(l.n)-e.Line)*d.clock.Pace < cameLeast*float64(e.Mean) { // the log pauses
			d.due = min(d.due, t+int64(lookAgainMean*e.Mean))
			continue
		}
		e.Flags |= flagSilent
		last := l.n - int64(uint32(l.n)-e.Line)
		if last >= d.silenceTold && (silent == nil || d.says(e) > d.says(silent)) {
			silent = e
		}
	}
	if silent != nil {
		each(d.silenceOf(l, silent, t))
		d.silenceTold = l.n
	}
}

// says ranks keys by how informative they are in the report of a silence. A key whose text is kept
// ranks first, then a template before a word, then the key with more beats.
func (d *Detector) says(e *key) int {
	order := int(e.Beats)
	if e.Subject == Template {
		order += 1 << 16
	}
	if d.texts[home(e.Tag, textsMost)].Tag == e.Tag {
		order += 1 << 17
	}
	return order
}
