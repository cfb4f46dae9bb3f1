// Package lines divides a text, whose bytes have costs in bits, into lines. It rates how strange
// each line is for its text.
//
// A Meter takes the text byte by byte, with the cost of each byte under a model of the text. For
// every line it returns number, offset, size, cost, text and strangeness. Strangeness is the
// probability that an ordinary line of this text is at least as strange, estimated from the earlier
// lines. The lines do not depend on how the text is divided into pieces.
//
// Strangeness depends on the text of the lines alone; see Rating. The costs are summed for each
// line, but do not affect strangeness. The equations are in docs/watch-method.md, and the
// measurements in docs/detection.md.
//
// All arithmetic is addition, multiplication, division and square root of float64, each rounded
// separately. So results are bit-identical on every machine.
package lines

import "github.com/lmserve/lmserve/internal/arithmetic/incidents"

// Line is a line of a text.
type Line struct {
	Number   int64   // number of the line in its text, from 1
	Offset   int64   // the offset of the line's first byte in the text
	Bytes    int64   // size, including the newline
	Chars    int64   // the number of UTF-8 characters that begin in the line
	Bits     float64 // the sum of the bytes' costs, in bits
	Baseline float64 // the sum of the bytes' costs under the static model, if there is one
	Strangeness

	// Text is the line without its newline. Costs has the cost of each byte of Text in bits. If the
	// line is Cut, Text is its first TextMax bytes. Text and Costs are valid until the callback
	// that receives the line returns.
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
	why    *incidents.Why // the explanation of a record's strangest line; nil for a single line
}

// Why explains why the line is strange. Call it only before the callback that receives the line
// returns.
func (l *Line) Why() incidents.Why {
	if l.why != nil {
		return *l.why
	}
	return l.rating.why(l.Text)
}

// TextMax is the maximum number of bytes of a line that a Meter keeps. All bytes of a longer line
// are counted, but only the first TextMax bytes are rated.
const TextMax = 4096

// BitsPerByte returns the mean cost of a byte of the line, in bits.
func (l *Line) BitsPerByte() float64 { return l.Bits / float64(l.Bytes) }

// Strangeness rates a line against the lines before it.
type Strangeness struct {
	// P is the probability that a line of this text is at least as strange as this line, estimated
	// from the lines before. 0 < P <= 1.
	P float64
	// From and To bound the strangest part of the line, as byte offsets in the line. From equals To
	// if the line has no part that can be rated.
	From, To int64
	// Seen is the number of lines before this line.
	Seen int64
}

// WarmUp is the number of lines that a meter must see before its probabilities are reliable.
// Callers should flag none of the first WarmUp lines.
const WarmUp = 32

// Warm reports whether P is reliable: whether at least WarmUp lines came before this line.
func (s Strangeness) Warm() bool { return s.Seen >= WarmUp }

// Rank returns 1/P, rounded down. On average, one in Rank lines is at least as strange as this
// line.
func (s Strangeness) Rank() int64 { return int64(1 / s.P) }
