package lines

import "github.com/lmserve/lmserve/internal/arithmetic/incidents"

// token is a part of a line between separators, together with its place.
type token struct {
	from, to int
	// before is the place given by the word and the separators before the token. column is the
	// place given by the token's number in the line's frame.
	before, column key
	digit          bool
	field          bool
}

// tokens cuts a line into tokens, and computes its frame: all of its separators, in order.
type tokens struct {
	all       []token
	frame     key
	separator []byte
}

const separatorBytes = 4

// separates reports whether a byte always separates tokens.
func separates(c byte) bool {
	switch c {
	case '"', '\'', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '=', '|', '&', '?':
		return true
	}
	return c <= ' '
}

// cut cuts a line into tokens: runs of bytes that are no separators. From both ends of a token it
// strips bytes that belong to no word. It keeps / and \ at the beginning of a token, and / at the
// end. A colon separates tokens, except in a time like 12:30.
func (t *tokens) cut(line []byte) {
	t.all, t.frame = t.all[:0], seedFrame
	t.separator = append(t.separator[:0], '^')
	word := seedWord.plus('^')
	for i := 0; i < len(line); {
		if c := line[i]; separates(c) || !inName(c) && c != '/' && c != '\\' {
			t.separator = append(t.separator, c)
			i++
			continue
		}
		x := token{from: i}
		for ; i < len(line) && !separates(line[i]); i++ {
			if line[i] == ':' && !inTime(line, x.from, i) {
				break
			}
			x.digit = x.digit || isDigit(line[i])
		}
		for x.to = i; x.to > x.from+1 && !inName(line[x.to-1]) && line[x.to-1] != '/'; {
			x.to--
		}
		t.frame = t.frame.with(t.separator)
		last := t.separator[max(0, len(t.separator)-separatorBytes):]
		x.field = beforeValue(last)
		x.before = (seedPlace ^ word).with(last).spread()
		t.all = append(t.all, x)
		begin := x.to
		for begin > x.from && inName(line[begin-1]) {
			begin--
		}
		word = masked(line[begin:x.to])
		t.separator = append(t.separator[:0], line[x.to:i]...)
	}
	t.frame = t.frame.with(t.separator).spread()
	for i := range t.all {
		t.all[i].column = t.frame.plus(byte(i)).plus(byte(i >> 8)).spread()
	}
}

// markAt returns the mark of the token that contains bytes from:to of the line, or 0 if there is no
// such token. The mark identifies the token in its place.
func (t *tokens) markAt(line []byte, from, to int) incidents.Mark {
	for i := range t.all {
		if x := &t.all[i]; x.from <= from && from < to && to <= x.to {
			return markOf(x.before, seedToken, line[x.from:x.to])
		}
	}
	return 0
}

func markOf(place, seed key, token []byte) incidents.Mark {
	return incidents.Mark((place ^ seed.with(token).spread()).spread())
}

// beforeValue reports whether separators announce a value. Such separators end with = : " or ', or
// with a colon and one more byte.
func beforeValue(separator []byte) bool {
	n := len(separator)
	switch separator[n-1] {
	case '=', ':', '"', '\'':
		return true
	}
	return n > 1 && separator[n-2] == ':'
}

// inTime reports whether the colon at i has exactly two digits on both sides, as in a time. The
// parameter `from` is the beginning of the token.
func inTime(line []byte, from, i int) bool {
	return i-from >= 2 && isDigit(line[i-1]) && isDigit(line[i-2]) &&
		(i-from == 2 || !isDigit(line[i-3])) &&
		i+2 < len(line) && isDigit(line[i+1]) && isDigit(line[i+2]) &&
		(i+3 == len(line) || !isDigit(line[i+3]))
}

const (
	runsLeast = 2
	runsMost  = 8
)

type run struct{ from, to int }

// runsOf appends the runs of digits of a token. It appends nothing if the token has fewer than
// runsLeast or more than runsMost runs. It also appends nothing if the token is a number with one
// point, or contains an identifier.
func runsOf(runs []run, token []byte) []run {
	for i := 0; i < len(token); {
		if !inName(token[i]) {
			i++
			continue
		}
		begin := i
		for i < len(token) && inName(token[i]) {
			i++
		}
		if identifier(token[begin:i]) {
			return runs
		}
	}
	for i := 0; i < len(token); {
		if !isDigit(token[i]) {
			i++
			continue
		}
		r := run{from: i}
		for i < len(token) && isDigit(token[i]) {
			i++
		}
		r.to = i
		if len(runs) == runsMost {
			return runs[:0]
		}
		runs = append(runs, r)
	}
	point := len(runs) == 2 && runs[0].from == 0 && runs[1].from == runs[0].to+1 &&
		token[runs[0].to] == '.'
	if len(runs) < runsLeast || point {
		return runs[:0]
	}
	return runs
}
