package changes

// key is a counted unit: a word at its place, a level of its numbers, a template, or a shape. Its
// clock is that of its place.
type key struct {
	Tag   uint32 // 0: the cell is free
	Line  uint32 // the last line with the key, modulo 2^32
	Clock uint32 // the clock at that line

	// For surges: the present excursion, and the events before it. See surge.go.
	Began  uint32  // line of the excursion's first event, modulo 2^32
	Before float32 // B: remembered events before the excursion
	Sum    float32 // G, the logarithm of the likelihood ratio
	// For silences: the gaps between beats. See silence.go.
	Beat      uint32 // clock of the last beat, modulo 2^32
	Mean      float32
	Deviation float32
	Longest   float32

	Length  uint16 // ticks of the present excursion
	Count   uint16 // k: events in the excursion
	Peak    uint16 // highest G in the excursion, in peakUnits
	Best    uint16 // highest peak of earlier excursions, in peakUnits; older peaks fade
	Beats   uint16 // number of gaps in Mean
	Flags   uint8
	Subject Subject
}

const (
	flagTold   = 1 << iota // the excursion has been reported
	flagBeaten             // the key has a first beat
	flagSilent             // the key's silence has been reported
	flagsMost  = 1<<iota - 1
)

const (
	keySets   = 368
	setKeys   = 4
	keysMost  = keySets * setKeys
	ageLeast  = 64
	countMost = 1<<16 - 1
	peakUnits = 512
)

// Subject says what changed.
type Subject uint8

// The subjects.
const (
	Word     Subject = iota + 1 // a word at its place
	Address                     // an address at its place
	Value                       // a number of at most four bytes at its place
	Level                       // a number of a certain size at its place, within half an octave
	Template                    // a line's words and separators, without numbers
	Shape                       // a line's separators

	// For clocks that jump: the line's stamp is far ahead of the last stamp, or far behind it.
	Ahead
	Back
)

// keyAt returns the key of a tag, and whether the tag already had a cell. A new tag gets a free
// cell of its set, or the cell with the least (B + k + G) / (age + 64). The age is in lines.
func (d *Detector) keyAt(tag uint32, n int64) (*key, bool) {
	set := d.set(tag)
	for i := range set {
		if set[i].Tag == tag {
			return &set[i], true
		}
	}
	out, least := &set[0], float32(0)
	for i := range set {
		e := &set[i]
		if e.Tag == 0 {
			return e, false
		}
		worth := (e.Before + float32(e.Count) + e.Sum) / float32(uint32(n)-e.Line+ageLeast)
		if i == 0 || worth < least {
			out, least = e, worth
		}
	}
	return out, false
}

func (d *Detector) set(tag uint32) []key {
	i := home(tag, keySets) * setKeys
	return d.keys[i : i+setKeys]
}
