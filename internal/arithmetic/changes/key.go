package changes

// key is a counted unit: a word at its place, a level of the place's numbers, a template, or a
// shape. Its clock is the clock of its place.
type key struct {
	Tag   uint32 // 0 if the cell is free
	Line  uint32 // number of the last line with the key, modulo 2^32
	Clock uint32

	// These fields describe the current excursion of a surge and the events before it. See
	// surge.go.
	Began  uint32  // line of the excursion's first event, modulo 2^32
	Before float32 // B in surge.go: number of remembered events before the excursion
	Sum    float32 // G in surge.go: logarithm of the likelihood ratio
	// These fields describe the gaps between beats, to detect silences. See silence.go.
	Beat      uint32 // value of the clock at the last beat, modulo 2^32
	Mean      float32
	Deviation float32
	Longest   float32

	Length  uint16 // length of the current excursion in ticks
	Count   uint16 // k: number of events in the excursion
	Peak    uint16 // highest G in the excursion, in peakUnits
	Best    uint16 // highest G of earlier excursions, in peakUnits; decays over time
	Beats   uint16
	Flags   uint8
	Subject Subject
}

const (
	flagTold = 1 << iota
	flagBeaten
	flagSilent
	flagsMost = 1<<iota - 1
)

const (
	keySets   = 368
	setKeys   = 4
	keysMost  = keySets * setKeys
	ageLeast  = 64
	countMost = 1<<16 - 1
	peakUnits = 512
)

// Subject is the kind of thing that changed: a word, a number, a template, and so on.
type Subject uint8

// The values of Subject.
const (
	Word     Subject = iota + 1 // a word at its place
	Address                     // an IPv4 address at its place
	Value                       // a number of at most four bytes at its place
	Level                       // the order of magnitude of a number at its place: a half octave
	Template                    // a line's words and separators, without numbers
	Shape                       // a line's separators

	// Ahead and Back are jumps of the log's clock: the line's time stamp is far ahead of the last
	// stamp, or far behind it.
	Ahead
	Back
)

// keyAt returns the key of a tag, and whether the tag already had a cell. A new tag gets a free
// cell of its set. If none is free, the tag replaces the cell with the least
//
//	(B + k + G) / (age + 64)
//
// where surge.go explains B, k and G, and the age is the number of lines since the key's last
// event.
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
