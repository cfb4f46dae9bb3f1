package changes

// place is the position of a word: the word and separators before it, and how often this pair
// came before in the line. Templates and shapes of lines have one place each, too.
type place struct {
	Tag       uint32  // 0: the cell is free
	N         uint32  // words seen at the place: the clock of the keys there
	Raised    uint32  // line of the last peak, modulo 2^32
	Told      uint32  // line of the last report of a surge here, modulo 2^32; 0: none
	First     float32 // highest peaks of two keys at the place
	Second    float32
	Repeats   [2]repeats
	Level     float32 // lg of the last number
	Largest   float32 // largest number of this window
	Before    float32 // largest number of the last window
	Mean      float32 // mean of the numbers' logarithms (lg)
	Deviation float32 // mean deviation of the logarithms from Mean
	Values    uint16
	Credit    uint16    // grows with visits; other tags lower it until they can take the cell
	Highest   uint16    // part of the tag of the key with the peak First
	Empty     uint16    // how often its value was empty
	Last      [2]uint16 // parts of the tags of the last word and the last level
}

// part returns the part of a tag by which a place recognizes the key.
func part(tag uint32) uint16 { return uint16(tag >> 16) }

// repeats measures how bursty a place is. Same is how often a word there equals the last one.
// Expected is how often that would happen if words were independent.
type repeats struct{ Same, Expected float32 }

const (
	placesMost   = 512
	creditMost   = 4096
	creditLost   = 16 // 1/16 of the credit is lost when another tag wants the cell
	creditLast   = 4
	placeLines   = placesMost     // index of the place of templates
	placeShapes  = placesMost + 1 // index of the place of shapes
	ordinalsMost = 7              // maximum ordinal of a repeated context in a line
)

// placeAt returns the index of a tag's place, and whether the tag has a cell. A tag can use two
// neighboring cells. If other tags hold both, the cell with less credit loses some of its credit.
// When little is left, the new tag takes that cell.
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

// placeOf returns the index of a tag's place, or -1 if it has none.
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

// visit counts a word at the place. If its clock overflows, the place is reset.
func (p *place) visit() bool {
	if p.N == 1<<32-1 {
		*p = place{Tag: p.Tag}
	}
	p.N++
	p.Credit = min(p.Credit+1, creditMost)
	return true
}

// quiet reports whether a surge was reported here too recently to report another one.
func (p *place) quiet(n int64) bool {
	return p.Told != 0 && uint32(n)-p.Told < placeQuiet
}
