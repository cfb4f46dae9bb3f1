// Package changes finds quantitative changes in a log. Examples: a word becomes far more frequent,
// a regular message stops, or a number is far above all earlier ones. The package reads the log
// once and counts in tables of a fixed size.
package changes

import (
	"math"
	"time"
)

// Detector counts the words, numbers and shapes in the lines of a log. A shape is the sequence of a
// line's separators.
type Detector struct {
	tables
	n     int64
	clock clock
	promises
	format                  format
	due                     int64 // earliest clock value at which a key can become silent
	surgeQuiet, numberQuiet int64
	driftQuiet, emptyQuiet  int64
	fieldQuiet              int64
	silenceTold             int64
}

// promises are the thresholds that limit how often each kind of change is reported.
type promises struct{ surges, numbers, driftsTold, empties, fieldsTold promise }

type tables struct {
	keys   [keysMost]key
	places [placesMost + 2]place
	texts  [textsMost]text
	drifts [driftsMost]drift
	fields [fieldsMost]field
}

const (
	warmLines = 300  // minimum lines of the log before the first report
	warmTicks = 128  // minimum words at a place before a surge there is reported
	lineMost  = 4096 // only the first 4,096 bytes of a line are read
	wordsMost = 96   // only the first 96 words of a line are read
)

// New returns a detector that has read no lines.
func New() *Detector {
	return &Detector{
		promises: promises{
			surges: promise{surgeLimits.start}, numbers: promise{numberLimits.start},
			driftsTold: promise{driftLimits.start}, empties: promise{emptyLimits.start},
			fieldsTold: promise{fieldLimits.start},
		},
		due: nothingDue,
	}
}

type line struct {
	n        int64
	text     []byte
	shown    int
	template uint32
	surge    surging
	outlier  outlier
	drift    drifting
	emptied  emptied
	field    fielded
	format   bool
}

// Take reads a line without its newline, and calls the function `each` once per change. A line has
// at most one change of each kind: surge, number, silence, drift, empty value, field and format.
func (d *Detector) Take(text []byte, each func(*Change)) {
	d.n++
	l := line{n: d.n, text: text[:min(len(text), lineMost)]}
	of := stampOf(l.text)
	l.shown = of.to
	step := d.clock.take(of, l.n)
	d.words(&l, cutter{line: l.text, stamp: of})
	d.jump(&l, of, step)
	if l.n <= warmLines {
		return
	}
	if l.format {
		each(d.formatOf(&l))
	}
	// For formatQuiet lines after a new format, other changes are not reported and do not raise the
	// thresholds.
	if d.format.settling(l.n) {
		each = func(*Change) {}
		was := d.promises
		defer func() { d.promises = was }()
	}
	d.tellSurge(&l, each)
	d.tellNumber(&l, each)
	d.tellSilence(&l, each)
	d.tellDrift(&l, each)
	d.tellEmpty(&l, each)
	d.tellField(&l, each)
}

// ordinals counts how often each context occurred in the line. A context is the previous word and
// the separators after it. A hash of the context selects the counter.
type ordinals [64]uint8

// place returns the tag of the place after a given word and separators. It also returns a pointer
// to the counter of this context in the line.
func (o *ordinals) place(before, separators uint32) (tag uint32, ordinal *uint8) {
	tag = mix(mix(before, separators), seedPlace)
	ordinal = &o[tag%uint32(len(o))]
	return mix(tag, uint32(*ordinal)) | 1, ordinal
}

func (d *Detector) words(l *line, cut cutter) {
	var ordinals ordinals
	template, shape, before := uint32(seedTemplate), uint32(seedShape), uint32(seedFirst)
	said := [2]int{}
	var w word
	end, behind := 0, uint32(fieldStart)
	for i := 0; i < wordsMost && cut.next(&w); i++ {
		hash := w.hash(l.text)
		template, shape = mix(mix(template, hash), w.separators), mix(shape, w.separators)
		if end > 0 && (end >= cut.stamp.to || w.from <= cut.stamp.from) {
			d.gap(l, end, w.from, before, &ordinals, said)
		}
		end = w.to
		tag, ordinal := ordinals.place(before, w.separators)
		*ordinal = min(*ordinal+1, ordinalsMost)
		before = hash
		if at, ok := d.placeAt(tag); ok {
			of := event{at: at, from: w.from, to: w.to, before: w.from, said: said}
			if said[1] > 0 {
				of.before = max(said[0], w.from-textBytes/2)
			}
			if w.form == plain && emptyWord(l.text[w.from:w.to]) {
				d.empty(l, of, 1)
			}
			d.word(l, &w, tag, hash, of)
		}
		if w.form == plain {
			said = [2]int{w.from, w.to}
			if from, to, is := fieldName(l.text, &w); is {
				behind = d.field(l, from, to, behind, event{})
			}
		}
	}
	if end > 0 && end >= cut.stamp.to && cut.at >= len(l.text) {
		d.gap(l, end, len(l.text), before, &ordinals, said)
	}
	if behind != fieldStart {
		d.next(l, behind, 0)
	}
	l.template = template | 1
	whole := event{from: l.shown, to: len(l.text), before: l.shown}
	whole.tag, whole.at, whole.subject = template|1, placeLines, Template
	d.places[placeLines].visit()
	d.count(l, whole)
	whole.tag, whole.at, whole.subject = mix(shape, 5)|1, placeShapes, Shape
	d.places[placeShapes].visit()
	e, found := d.keyAt(whole.tag, l.n)
	isNew := !found || e.Before+float32(e.Count) < formatNew
	d.count(l, whole)
	l.format = d.format.take(l.n, isNew)
}

// word counts a word at its place. If the word is a number, word also counts its order of
// magnitude.
func (d *Detector) word(l *line, w *word, place, hash uint32, of event) {
	switch w.form {
	case random:
		return
	case plain:
		of.subject = Word
	case address:
		of.subject, hash = Address, hashOf(l.text[w.from:w.to])
	case number:
		p := &d.places[of.at]
		x := lg(valueLeast + w.value)
		near := float32(x) - p.Level
		of.counter = near < counterNear && -near < counterNear
		of.record = p.record(w.value, x)
		p.Level = float32(x)
		if w.to-w.from <= valueBytes {
			of.subject, of.tag = Value, mix(place, hashOf(l.text[w.from:w.to]))|1
			of.explained = d.count(l, of)
		}
		of.subject, of.tag = Level, mix(place, levelOf(w.value, x))|1
		d.count(l, of)
		d.number(l, of, w.value, x)
		d.followNumber(l, p, of, x)
		return
	}
	of.tag = mix(place, hash) | 1
	d.count(l, of)
}

const (
	valueBytes  = 4 // only numbers of at most 4 bytes are also counted as words
	levelsBelow = 40
)

// levelOf returns the index of the half octave that contains the number v, given x = lg(.0001 + v).
// Zero has its own index.
func levelOf(v, x float64) uint32 {
	if v == 0 {
		return seedLevel - 1
	}
	return seedLevel + uint32(math.Floor(2*x+levelsBelow))
}

// Due returns how long the log must pause before the pause is unusual, measured by its time stamps.
// It returns false while the log has too few stamps to compute this.
func (d *Detector) Due() (time.Duration, bool) {
	c := &d.clock
	if d.n < silenceLines || c.Stamps == 0 && !c.follows(d.n) {
		return 0, false
	}
	longest, mean := c.Longest, c.Pace
	if c.Stamps == 0 { // these two count lines, for example after a fast start of a slow log
		longest, mean = c.Ahead, float64(c.Time)/float64(d.n)
	}
	gap := max(wholeLogLongest*longest, wholeLogMean*mean, coarseMillis)
	return time.Duration(gap * float64(time.Millisecond)), true
}
