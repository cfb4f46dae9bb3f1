package lines

import (
	"bytes"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// placeTable knows which tokens have stood in which places, and rates a line by how unlike its
// tokens are to those that stood in their places before (W), and by how unlike its values are (V).
type placeTable struct{ cells [placesMost]standing }

const (
	placesMost  = 1 << 9
	standings   = 8    // tokens that a place remembers
	placeTotal  = 1024 // counts are halved there
	placeKnown  = 8    // tokens after which a place has a say
	placeRecent = 64   // tokens that its rate of new ones remembers
	placeWear   = 1024 // how often a place has to be missed, at most, before another takes its cell
	textBytes   = 12   // of a token that are kept to be shown
	usualMost   = 3    // tokens of a place that are shown
	runsBehind  = 2    // of a run of digits, as an hour, to be shown before a token

	placeSeenMost = 1 << 15
)

// standing is what has stood in a place: the most frequent tokens, by their hashes.
type standing struct {
	Tag, Seen, N, Total uint16
	News                float32 // running share of tokens that were not among these
	Tags, Counts        [standings]uint16
	Texts               [standings][textBytes]byte // their beginnings, filled up with zeros
}

// twoLargest keeps the two largest of some numbers, and how many there were.
type twoLargest struct {
	first, second float64
	n             int
}

// add reports whether x is the largest so far.
func (t *twoLargest) add(x float64) bool {
	t.n++
	switch {
	case x > t.first:
		t.first, t.second = x, t.first
		return true
	case x > t.second:
		t.second = x
	}
	return false
}

// placed is what stands strangest in a line.
type placed struct {
	bits     float64
	from, to int
	cell     int32 // of its place, or ownPlace
	lines    int64 // in its own place: how many lines had it before
	mark     incidents.Mark
	place    incidents.Mark // or again its mark, in its own place
}

// ownPlace says that something is strange wherever it stands.
const ownPlace = -1

// take rates a line that is cut into tokens, in bits, and takes it in.
func (p *placeTable) take(line []byte, of *scratch) (values, all float64, strangest placed) {
	var v, w twoLargest
	for i := range of.tokens.all {
		x := &of.tokens.all[i]
		text := line[x.from:x.to]
		of.runs = of.runs[:0]
		if x.digit {
			of.runs = runsOf(of.runs, text)
		}
		for _, place := range [2]key{x.before, x.column} {
			if bits, mark, ok := p.stand(place, seedToken, text, of); ok {
				w.add(bits)
				if x.digit || x.field {
					v.add(bits)
				}
				if bits > strangest.bits {
					strangest = placed{
						bits: bits, from: x.from, to: x.to, mark: mark,
						place: incidents.Mark(place), cell: int32(place % placesMost),
					}
				}
			}
			for n, r := range of.runs {
				at := place.plus(byte(n)).plus(byte(len(of.runs))).spread()
				if bits, mark, ok := p.stand(at, seedRun, text[r.from:r.to], of); ok {
					v.add(bits)
					if bits /= runsBehind; bits > strangest.bits {
						strangest = placed{
							bits: bits, from: x.from + r.from, to: x.from + r.to,
							mark:  mark,
							place: incidents.Mark(at), cell: int32(at % placesMost),
						}
					}
				}
			}
		}
	}
	if v.n > 0 {
		values = max(0, v.first-lg(float64(v.n)))
	}
	if w.n > 0 {
		all = max(0, w.first+w.second-float64(2*lg(float64(w.n))))
	}
	return values, all, strangest
}

// rareBits is how surprising a token is that counts as rare in its place.
const rareBits = 5

// stand says how surprising a token is in a place, in bits, unless the place is hardly known, and
// takes it in.
func (p *placeTable) stand(
	place, seed key, text []byte, of *scratch,
) (bits float64, mark incidents.Mark, ok bool) {
	token := seed.with(text).spread()
	mark = incidents.Mark((place ^ token).spread())
	of.marks = append(of.marks, mark)
	c := &p.cells[place%placesMost]
	tag := uint16(place >> 48)
	if c.Seen > 0 && c.Tag != tag {
		if c.Seen--; c.Seen > 0 {
			return 0, mark, false
		}
	}
	if c.Seen == 0 {
		*c = standing{Tag: tag}
	}
	c.Seen = min(c.Seen+1, placeWear)
	bits = bitsOf(c.take(uint16(token>>32), text))
	if ok = c.N > placeKnown; ok && bits >= rareBits {
		of.rare = append(of.rare, mark)
	}
	return bits, mark, ok
}

// take returns the share of the tokens so far that were no more frequent than one, and takes it in.
func (c *standing) take(tag uint16, text []byte) (probability float64) {
	at, least := -1, 0
	for i, count := range c.Counts {
		if c.Tags[i] == tag && count > 0 {
			at = i
		}
		if count < c.Counts[least] {
			least = i
		}
	}
	sum, isNew := 0, float32(0)
	if at >= 0 {
		for _, count := range c.Counts {
			if count <= c.Counts[at] {
				sum += int(count)
			}
		}
	} else {
		at, isNew = least, 1
		c.Tags[at], c.Counts[at], c.Texts[at] = tag, 0, [textBytes]byte{}
		copy(c.Texts[at][:], text)
	}
	probability = min(1, float64(sum+1)/float64(int(c.Total)+1)+float64(c.News))
	c.News += float32((isNew - c.News) * max(1/(float32(c.N)+2), 1./placeRecent))
	c.N = min(c.N+1, placeSeenMost)
	c.Counts[at]++
	if c.Total++; c.Total >= placeTotal {
		c.Total /= 2
		for i := range c.Counts {
			c.Counts[i] /= 2
		}
	}
	return probability
}

// usual appends the tokens that most often stood in a place before one did, the most frequent
// first.
func (c *standing) usual(tokens []string, not []byte) []string {
	var order [standings]int
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order[:],
		func(i, j int) int { return int(c.Counts[j]) - int(c.Counts[i]) })
	for _, i := range order {
		text := bytes.TrimRight(c.Texts[i][:], "\x00")
		if c.Counts[i] == 0 || len(tokens) == usualMost || bytes.HasPrefix(not, text) &&
			c.Counts[i] == 1 {
			continue
		}
		tokens = append(tokens, strings.ToValidUTF8(string(text), ""))
	}
	return tokens
}
