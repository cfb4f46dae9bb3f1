package changes

import "bytes"

// An empty value is NaN, null, - or nothing at a place that had a word or number. The empty value
// is reported if the place had emptyKnown values before and was never empty. A missing value is
// recognized by the separators at its place: user= at the end of a line, or "user":"".

const (
	emptyKnown   = 128 // minimum values at a place before an empty value there is reported
	emptiesMost  = 1<<16 - 1
	emptyAtFirst = 2
)

// emptied is the value that became empty in a line. If several values did, emptied is the value
// whose place had the most values before.
type emptied struct {
	of     event
	values uint32
	number bool
}

func emptyWord(w []byte) bool {
	const longest = len("undefined")
	if len(w) > longest {
		return false
	}
	var lower [longest]byte
	for i, c := range w {
		lower[i] = c | 0x20
	}
	switch string(lower[:len(w)]) {
	case "nan", "null", "nil", "none", "undefined", "inf":
		return true
	}
	return false
}

// emptyAt reports whether a value is missing at offset i of the gap between two words. It also
// returns the end of the value's placeholder, such as a dash.
func emptyAt(gap []byte, i int, last bool) (to int, empty bool) {
	before := gap[i-1]
	end := i == len(gap)
	switch {
	case end:
		return i, last && (before == '=' || before == ',')
	case before == '"' || before == '\'':
		if gap[i] == before {
			return i, i > 1
		}
	case before == '=':
		if bytes.IndexByte([]byte(" ,;&)}]\t"), gap[i]) >= 0 {
			return i, true
		}
	case before == ',' || before == ';' || before == '|' || before == '\t':
		if gap[i] == before {
			return i, true
		}
	}
	if gap[i] == '-' && bytes.IndexByte([]byte(` "=[(:,|`+"\t"), before) >= 0 {
		if i++; i == len(gap) {
			return i, last
		}
		return i, bytes.IndexByte([]byte(` "]),;|`+"\t"), gap[i]) >= 0
	}
	return i, false
}

// gap searches for missing values between two words, or between the last word and the end of the
// line.
func (d *Detector) gap(l *line, from, to int, before uint32, ordinals *ordinals, said [2]int) {
	last := to == len(l.text)
	gap := l.text[from:to]
	if len(gap) < 2 && !last {
		return
	}
	separators := uint32(0)
	for i := 1; i <= len(gap); i++ {
		separators = separators<<8 | uint32(gap[i-1])
		end, empty := emptyAt(gap, i, last)
		if !empty {
			continue
		}
		tag, _ := ordinals.place(before, separators)
		if at := d.placeOf(tag); at >= 0 {
			d.empty(l, event{at: at, from: from + i, to: from + end, said: said}, 0)
		}
	}
}

// empty records that a place is empty. The parameter visits is 1 if the empty value counts as a
// value of the place, else 0.
func (d *Detector) empty(l *line, of event, visits uint32) {
	p := &d.places[of.at]
	if l.n <= warmLines || p.N < emptyKnown {
		p.Empty = max(p.Empty, emptyAtFirst)
		return
	}
	p.Empty = min(p.Empty, emptiesMost-1) + 1
	values := p.N - visits*emptyAtFirst
	if p.Empty == emptyAtFirst && values > l.emptied.values {
		l.emptied = emptied{of: of, values: values, number: p.Values >= valuesKnown}
	}
}

func (d *Detector) tellEmpty(l *line, each func(*Change)) {
	score := 0.
	if l.emptied.values > 0 {
		score = emptyScore
	}
	d.empties.tell(emptyLimits, l.n, &d.emptyQuiet, score, func() {
		c := d.changeOf(l, Empty, l.emptied.of)
		c.Of = int64(l.emptied.values)
		if l.emptied.number {
			c.Subject = Level
		}
		each(c)
	})
}

const emptyScore = 2
