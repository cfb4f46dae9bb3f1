package lines

// placeTable knows which tokens have stood in which places, and rates a line by how unlike its tokens
// are to those that stood in their places before (W), and by how unlike its values are (V).
type placeTable struct {
	cells [placesMost]standing

	tokens tokens
	runs   []run
}

const (
	placesMost  = 1 << 9
	standings   = 8    // tokens that a place remembers
	placeTotal  = 1024 // counts are halved there
	placeKnown  = 8    // tokens after which a place has a say
	placeRecent = 64   // tokens that its rate of new ones remembers
	placeWear   = 1024 // how often a place has to be missed, at most, before another takes its cell
	textBytes   = 12   // of a token that are kept to be shown
)

// standing is what has stood in a place.
type standing struct {
	Tag, Seen, N, Total uint16
	News                float32 // running share of tokens that were not among Top
	Top                 [standings]struct {
		Tag, Count uint16
		Text       [textBytes]byte // its beginning, filled up with zeros
	}
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
	cell     int32 // of its place
}

// take rates a line, in bits, and takes it in.
func (p *placeTable) take(line []byte) (values, all float64, strangest placed) {
	p.tokens.cut(line)
	var v, w twoLargest
	for i := range p.tokens.all {
		x := &p.tokens.all[i]
		text := line[x.from:x.to]
		p.runs = p.runs[:0]
		if x.digit {
			p.runs = runsOf(p.runs, text)
		}
		for _, place := range [2]key{x.before, x.column} {
			if bits, ok := p.stand(place, seedToken, text); ok {
				w.add(bits)
				if x.digit || x.field {
					v.add(bits)
				}
				if bits > strangest.bits {
					strangest = placed{bits, x.from, x.to, int32(place % placesMost)}
				}
			}
			for n, r := range p.runs {
				at := place.plus(byte(n)).plus(byte(len(p.runs))).spread()
				if bits, ok := p.stand(at, seedRun, text[r.from:r.to]); ok {
					v.add(bits)
					if bits > strangest.bits {
						strangest = placed{bits, x.from + r.from, x.from + r.to, int32(at % placesMost)}
					}
				}
			}
		}
	}
	if v.n > 0 {
		values = max(0, v.first-lg(float64(v.n)))
	}
	if w.n > 0 {
		all = max(0, v0(w))
	}
	return values, all, strangest
}

func v0(w twoLargest) float64 { return w.first + w.second - float64(2*lg(float64(w.n))) }

// stand says how surprising a token is in a place, in bits, unless the place is hardly known, and
// takes it in.
func (p *placeTable) stand(place, seed key, text []byte) (bits float64, ok bool) {
	c := &p.cells[place%placesMost]
	tag := uint16(place >> 48)
	if c.Seen > 0 && c.Tag != tag {
		if c.Seen--; c.Seen > 0 {
			return 0, false
		}
	}
	if c.Seen == 0 {
		*c = standing{Tag: tag}
	}
	c.Seen = min(c.Seen+1, placeWear)
	probability := c.take(uint16(seed.with(text).spread()>>32), text)
	ok = c.N > placeKnown
	return bitsOf(probability), ok
}

// take returns the share of the tokens so far that were no more frequent than one, and takes it in.
func (c *standing) take(tag uint16, text []byte) (probability float64) {
	at, least, sum := -1, 0, 0
	for i := range c.Top {
		if c.Top[i].Count > 0 && c.Top[i].Tag == tag {
			at = i
		}
		if c.Top[i].Count < c.Top[least].Count {
			least = i
		}
	}
	isNew := float32(1)
	if at >= 0 {
		isNew = 0
		for i := range c.Top {
			if c.Top[i].Count <= c.Top[at].Count {
				sum += int(c.Top[i].Count)
			}
		}
	} else {
		at = least
		c.Top[at].Tag, c.Top[at].Count, c.Top[at].Text = tag, 0, [textBytes]byte{}
		copy(c.Top[at].Text[:], text)
	}
	probability = min(1, float64(sum+1)/float64(int(c.Total)+1)+float64(c.News))
	c.News += float32((isNew - c.News) * max(1/(float32(c.N)+2), 1./placeRecent))
	c.N = min(c.N+1, 1<<15)
	c.Top[at].Count++
	if c.Total++; c.Total >= placeTotal {
		c.Total /= 2
		for i := range c.Top {
			c.Top[i].Count /= 2
		}
	}
	return probability
}
