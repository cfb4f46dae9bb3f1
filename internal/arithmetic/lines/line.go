// Package lines divides a text, whose bytes have costs in bits, into lines. It rates how strange
// each line is for its text.
//
// A Meter takes the text byte by byte, each with its cost under a model of the text. For every line
// it returns number, offset, size, cost, text and strangeness. Strangeness is the probability that
// an ordinary line of this text is as strange, estimated from the earlier lines. The lines depend
// on the text alone, and not on how it was divided into pieces.
//
// Strangeness depends on the text of the lines alone, see Rating. The costs are summed for each
// line, but do not affect its strangeness. The equations and measurements are in docs/watch.md.
//
// All arithmetic is addition, multiplication, division and square root of float64, each rounded
// separately. A meter gives the same bits on every machine.
package lines

import "github.com/lmserve/lmserve/internal/arithmetic/incidents"

// Line is a line of a text.
type Line struct {
	Number   int64   // number of the line in its text, from 1
	Offset   int64   // offset in the text of its first byte
	Bytes    int64   // size, including the newline
	Chars    int64   // number of UTF-8 characters: bytes that begin one
	Bits     float64 // sum of the costs of its bytes
	Baseline float64 // the same sum under the static model, if there is one
	Strangeness

	// Text is the line without its newline. Costs has the cost of each byte of Text in bits. If
	// the line is Cut, Text is its first TextMax bytes. Both are valid until the callback that
	// receives the line returns.
	Text  []byte
	Costs []float32 `json:"-"`
	Cut   bool

	// Incidents are the incidents that the line has opened, joined or closed. They are valid until
	// the callback that receives the line returns.
	Incidents []incidents.Incident `json:"-"`

	// Lines is the number of lines in a record (see Records), or 0 for a single line. A record has
	// the summed sizes and costs of its lines, and the strangeness of its strangest line. Text
	// contains the newlines between the lines.
	Lines int64

	rating *Rating
	why    *incidents.Why // explanation of a record's strangest line
}

// Why explains why the line is strange. Call it only before the callback that receives the line
// returns.
func (l *Line) Why() incidents.Why {
	if l.why != nil {
		return *l.why
	}
	return l.rating.why(l.Text)
}

// TextMax is the maximum number of a line's bytes that a meter keeps as text. Of a longer line, all
// bytes are counted, but only the first TextMax bytes are rated.
const TextMax = 4096

// BitsPerByte returns the mean cost of a byte of the line.
func (l *Line) BitsPerByte() float64 { return l.Bits / float64(l.Bytes) }

// Strangeness rates a line against the lines before it.
type Strangeness struct {
	// P is the probability that a line of this text is at least as strange as this one. It is
	// estimated from the lines before; it is above 0 and at most 1.
	P float64
	// From and To bound the strangest part of the line, as offsets of bytes in it. They are equal
	// if the line has no part that can be rated.
	From, To int64
	// Seen is the number of lines before this one.
	Seen int64
}

// WarmUp is the number of lines that a meter must see before its probabilities are reliable. Before
// that, callers should flag no line.
const WarmUp = 32

// Warm reports whether P is reliable: whether enough lines came before this one.
func (s Strangeness) Warm() bool { return s.Seen >= WarmUp }

// Rank returns 1/P, rounded down. About one of this number of lines is at least as strange.
func (s Strangeness) Rank() int64 { return int64(1 / s.P) }
