// Package lines makes lines of a text whose bytes have costs in bits, and rates how strange each
// line is for its text.
//
// A Meter takes the text byte by byte, each with its cost under a model of the text. For every
// line it returns place, size, cost, text and strangeness. Strangeness is the probability that an
// ordinary line of this text is as strange, estimated from the lines before. The ends of lines
// depend on the text alone, so the pieces in which the text came do not matter.
//
// Strangeness depends on the text of the lines alone, see Rating. The costs are summed, but not
// used for it. The equations and measurements are in docs/watch.md.
//
// All arithmetic is addition, multiplication, division and square root of float64, each rounded
// separately. A meter gives the same bits on every machine.
package lines

import "github.com/lmserve/lmserve/internal/arithmetic/incidents"

// Line is a line of a text.
type Line struct {
	Number   int64   // of the line in its text, from 1
	Offset   int64   // of its first byte in the text
	Bytes    int64   // with its newline
	Chars    int64   // bytes that begin a character of UTF-8
	Bits     float64 // the sum of its bytes' costs
	Baseline float64 // the same under the static model, if any
	Strangeness

	// Text is the line without its newline. Costs has the cost of each byte of Text in bits. If
	// the line is Cut, Text is its first TextMax bytes. Both are valid until the callback that
	// receives the line returns.
	Text  []byte
	Costs []float32 `json:"-"`
	Cut   bool

	// Incidents are the incidents that the line has opened, joined or closed. They are valid as
	// long as Text.
	Incidents []incidents.Incident `json:"-"`

	// Lines is the number of lines of a record (Records); 0 for a line. A record has the sums of
	// its lines, and the strangeness of the strangest. Text contains the newlines between them.
	Lines int64

	rating *Rating
	why    *incidents.Why // of a record
}

// Why explains why the line is strange. Call it only before the callback that receives the line
// returns.
func (l *Line) Why() incidents.Why {
	if l.why != nil {
		return *l.why
	}
	return l.rating.why(l.Text)
}

// TextMax is the maximum number of a line's bytes that a meter keeps as text. Counts of a longer
// line are exact; its strangeness is that of the first TextMax bytes.
const TextMax = 4096

// BitsPerByte returns the mean cost of a byte of the line.
func (l *Line) BitsPerByte() float64 { return l.Bits / float64(l.Bytes) }

// Strangeness rates a line against the lines before it.
type Strangeness struct {
	// P is the probability that a line of this text is at least as strange, estimated from the
	// lines before: above 0, at most 1.
	P float64
	// From and To bound the strangest part of the line: bytes From up to To. They are equal if no
	// place in the line is known.
	From, To int64
	// Seen is the number of lines before this one.
	Seen int64
}

// WarmUp is the number of lines that a meter must see before its probabilities are reliable.
// Nothing should be flagged before.
const WarmUp = 32

// Warm reports whether enough lines came before for P to be reliable.
func (s Strangeness) Warm() bool { return s.Seen >= WarmUp }

// Rank returns 1/P, rounded down: the line is the strangest of about that number of lines.
func (s Strangeness) Rank() int64 { return int64(1 / s.P) }
