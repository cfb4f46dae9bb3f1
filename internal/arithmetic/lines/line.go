// Package lines makes lines of a text whose bytes have costs in bits, and says how strange each
// line is for the text that it stands in.
//
// A Meter is fed byte by byte, with the cost of each byte: what a model of the text needed for it.
// For every line the meter gives its place, its size, its cost, its text, and its strangeness: the
// probability that an ordinary line of this text is as strange, from the lines before it. Where
// lines end depends on the text alone, so that it does not matter in which pieces the text came.
//
// Strangeness is computed from what stands in the line alone, see Rating; the costs are added up,
// and do not matter for it. The equations and measurements are in docs/watch.md.
//
// All arithmetic is addition, multiplication, division and square root of float64, each rounded by
// itself: a meter gives the same bits on every machine.
package lines

import "github.com/lmserve/lmserve/internal/arithmetic/incidents"

// Line is a line of a text.
type Line struct {
	Number   int64   // of the line in its text, from 1
	Offset   int64   // of its first byte in the text
	Bytes    int64   // in the line, its newline among them
	Chars    int64   // of these the bytes that begin a character of UTF-8
	Bits     float64 // the sum of its bytes' costs
	Baseline float64 // the same under the static model, if the caller has one
	Strangeness

	// Text is the line without its newline, and Costs has the cost of each byte of Text in bits.
	// If the line is Cut, these are its first TextMax bytes. Both are valid until the function that
	// was called with the line returns.
	Text  []byte
	Costs []float32 `json:"-"`
	Cut   bool

	// Incidents are those that the line has opened, joined or closed. They are valid as long as
	// Text.
	Incidents []incidents.Incident `json:"-"`

	// Lines is how many lines a record has (Records); 0: it is a line. A record has the sums of its
	// lines, and the strangeness of the strangest one. Text has the newlines between them.
	Lines int64

	rating *Rating
	why    *incidents.Why // of a record
}

// Why says why the line is strange. It may be asked until the function that was called with the
// line returns.
func (l *Line) Why() incidents.Why {
	if l.why != nil {
		return *l.why
	}
	return l.rating.why(l.Text)
}

// TextMax is the largest number of a line's bytes that a meter keeps as text. The counts of a
// longer line are exact, and its strangeness is that of the first ones.
const TextMax = 4096

// BitsPerByte is what a byte of the line costs on average.
func (l *Line) BitsPerByte() float64 { return l.Bits / float64(l.Bytes) }

// Strangeness says how strange a line is for the lines before it.
type Strangeness struct {
	// P is the probability that a line of this text is at least as strange, estimated from the
	// lines before this one: over 0, and at most 1.
	P float64
	// From and To bound what stands strangest in the line: its bytes from From up to To. That is
	// nothing in a line whose places are not known.
	From, To int64
	// Seen is the number of lines before this one.
	Seen int64
}

// WarmUp is the number of lines that a meter has to have seen before its probabilities mean much.
// Nothing should be flagged before.
const WarmUp = 32

// Warm reports whether enough lines have been seen for P to mean what it says.
func (s Strangeness) Warm() bool { return s.Seen >= WarmUp }

// Rank returns n where the line is the strangest of about n lines: 1/P, rounded down.
func (s Strangeness) Rank() int64 { return int64(1 / s.P) }
