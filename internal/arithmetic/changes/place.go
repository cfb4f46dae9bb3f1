package changes

// place is the position of a word in a line. Three things identify the place: the previous word,
// the separators after it, and how often both occurred earlier in the line. All templates share one
// place, and all shapes share another.
type place struct {
	Tag       uint32  // 0 if the cell is free
	N         uint32  // number of words seen at the place, which is the clock of its keys
	Raised    uint32  // number of the last line with a peak of a surge, modulo 2^32
	Told      uint32  // line of the last reported surge here, modulo 2^32; 0 if there was none
	First     float32 // the highest peaks of two different keys at the place
	Second    float32
	Repeats   [2]repeats
	Level     float32 // base-2 logarithm of the last number
	Largest   float32 // largest number of the current window
	Before    float32 // largest number of the previous window
	Mean      float32
	Deviation float32
	Values    uint16
	Credit    uint16 // grows with each visit; near 0, another tag can take the cell
	Highest   uint16
	Empty     uint16
	Last      [2]uint16
}

// part returns the half of a key's tag that a place stores to recognize the key.
func part(tag uint32) uint16 { return uint16(tag >> 16) }

// repeats measures how bursty a place is. Same is the frequency with which a word repeats the
// previous word at the place. Expected is the frequency that independent words would have.
type repeats struct{ Same, Expected float32 }

const (
	placesMost   = 512
	creditMost   = 4096
	creditLost   = 16 // another tag that needs the cell removes 1/16 of the cell's credit
	creditLast   = 4
	placeLines   = placesMost     // index of the place that all templates share
	placeShapes  = placesMost + 1 // index of the place that all shapes share
	ordinalsMost = 7
)

// placeAt returns the index of a tag's place, and whether the tag has a cell. A tag can use two
// neighboring cells. If other tags occupy both, the cell with less credit loses some of its credit.
// When little credit is left, the new tag takes that cell.
func (d *Detector) placeAt(tag uint32) (int, bool) {
	i := int(home(tag, placesMost))
	if d.places[i].Tag == tag {
		return i, d.places[i].visit()
	}
	next := (i + 1) % placesMost
	if d.places[next].Tag == tag {
		return next, d.places[next].visit()
	}
	if d.places[next].Credit < d.places[i].Credit {
		i = next
	}
	p := &d.places[i]
	if p.Credit > creditLast {
		p.Credit -= p.Credit/creditLost + 1
		return 0, false
	}
	*p = place{Tag: tag}
	return i, p.visit()
}

// placeOf returns the index of a tag's place, or -1 if the tag has no place.
func (d *Detector) placeOf(tag uint32) int {
	i := int(home(tag, placesMost))
	if d.places[i].Tag == tag {
		return i
	}
	if i = (i + 1) % placesMost; d.places[i].Tag == tag {
		return i
	}
	return -1
}

// visit counts a word at the place. If the count overflows, visit resets the place.
func (p *place) visit() bool {
	if p.N == 1<<32-1 {
		*p = place{Tag: p.Tag}
	}
	p.N++
	p.Credit = min(p.Credit+1, creditMost)
	return true
}

func (p *place) quiet(n int64) bool {
	return p.Told != 0 && uint32(n)-p.Told < placeQuiet
}
