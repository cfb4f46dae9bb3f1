package lines

import (
	"bytes"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/changes"
	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// placeTable counts the tokens in each place. A place is the word and the separators before a
// token, or the line's frame and the token's number. The table computes two parts of Rating: W, how
// unusual the line's tokens are in their places, and V, how unusual the line's values are.
type placeTable struct{ cells [placesMost]standing }

const (
	placesMost  = 1 << 9
	standings   = 8
	placeTotal  = 1024
	placeKnown  = 8
	placeRecent = 64
	placeWear   = 1024 // the maximum number of misses until another place gets the cell
	textBytes   = 12
	usualMost   = 3
	runsBehind  = 2 // divides the score of a run of digits, because whole tokens explain more

	placeSeenMost = 1 << 15
)

// standing counts the most frequent tokens of a place. Tags contains hashes of these tokens.
type standing struct {
	Tag, Seen, N, Total uint16
	News                float32 // the running share of tokens that had no count yet
	Tags, Counts        [standings]uint16
	Texts               [standings][textBytes]byte
}

type twoLargest struct {
	first, second float64
	n             int
}

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

type placed struct {
	bits     float64
	from, to int
	cell     int32
	lines    int64 // the number of earlier lines with the part, set only if cell is ownPlace
	mark     incidents.Mark
	place    incidents.Mark // the mark of the place, or of the part if cell is ownPlace
}

// ownPlace is the value of placed.cell for a part that would be strange in any place.
const ownPlace = -1

// take returns the scores of the parts V and W of Rating in bits, and the strangest token or run of
// digits. The strangest token is never the line's time of day, which explains nothing. take also
// counts the tokens of the line, which of.tokens contains.
func (p *placeTable) take(line []byte, of *scratch) (values, all float64, strangest placed) {
	var v, w twoLargest
	timeFrom, timeTo := changes.TimeOfDay(line)
	for i := range of.tokens.all {
		x := &of.tokens.all[i]
		text := line[x.from:x.to]
		explains := x.to <= timeFrom || x.from >= timeTo
		of.runs = of.runs[:0]
		if x.digit {
			of.runs = runsOf(of.runs, text)
		}
		for _, place := range [2]key{x.before, x.column} {
			if bits, mark, ok := p.rate(place, seedToken, text, of); ok {
				w.add(bits)
				if x.digit || x.field {
					v.add(bits)
				}
				if explains && bits > strangest.bits {
					strangest = placed{
						bits: bits, from: x.from, to: x.to, mark: mark,
						place: incidents.Mark(place), cell: int32(place % placesMost),
					}
				}
			}
			for n, r := range of.runs {
				at := place.plus(byte(n)).plus(byte(len(of.runs))).spread()
				if bits, mark, ok := p.rate(at, seedRun, text[r.from:r.to], of); ok {
					v.add(bits)
					if bits /= runsBehind; explains && bits > strangest.bits {
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

// rareBits is the minimum surprise, in bits, of a token that counts as rare in its place.
const rareBits = 5

// rate returns the surprise of a token in a place, in bits, and counts the token. ok is false if
// the place has seen too few tokens.
func (p *placeTable) rate(
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

// take estimates the probability that a token of the place is at most as frequent as this token. It
// then counts the token.
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

// usual appends the most frequent tokens of a place, most frequent first. It leaves out the token
// `not` if that token was counted only once.
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
