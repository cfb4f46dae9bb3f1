package lines

import (
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// Rating rates how strange each line of a text is, compared with the lines before. It uses the text
// of the lines, not the costs of bytes. A rating has four parts, each in bits:
//
//	B  how rare the line's words are (rarity.go)
//	E  how rare similar lines are (crowd.go)
//	V  how unusual the line's values are in their places (places.go), among lines of
//	   the same frame (histogram.go)
//	W  how unusual the line's tokens are in their places
//
// The parts B, E and W are computed from scores: each is -log2 of the share of earlier lines with
// at least this score. S is the sum of the four parts. P is the share of lines with a sum of at
// least S, shrunk towards the share in ordinary logs. Let H(S) be the weight of the lines with at
// least S. Let T be the weight of all lines, and w the weight of the next line. Then
//
//	P = (H(S) + 256 w 2^(-S/3.7)) / (T + 256 w)
//
// With a list of words of trouble, S has a fifth part, F (trouble.go).
type Rating struct {
	words   rarity
	crowds  crowds
	places  placeTable
	values  amongAlike
	b, e, w tail
	trouble trouble
	sum     tail

	strangest placed
	scratch   scratch
}

// scratch is working memory that keeps nothing from one line to the next.
type scratch struct {
	tokens tokens
	runs   []run
	words  []spacedWord
	marks  []incidents.Mark
	rare   []incidents.Mark
	found  []key
}

const (
	valueTimes = 4
	usualLines = 256
	usualSlope = 3.7 // the increase of S, in bits, that halves the share of ordinary lines
	sumLeast   = 1
)

// NewRating returns the rating of an empty text.
func NewRating() *Rating {
	return &Rating{b: newTail(), e: newTail(), w: newTail(), sum: newTail()}
}

// Parts are the parts of a line's rating, in bits.
type Parts struct{ B, E, V, W, F float64 }

// Trouble makes the rating also use words that mean trouble, such as "error". The list must be a
// result of the function TroubleWords; "" means no list. The text must still be empty.
func (r *Rating) Trouble(list string) { r.trouble.begin(list) }

// Take rates a line, given without its newline, and learns the line. from and to bound the line's
// strangest part, in bytes. They are equal if no part can be rated.
func (r *Rating) Take(line []byte) (p float64, parts Parts, from, to int) {
	of := &r.scratch
	of.tokens.cut(line)
	of.words = spaced(of.words[:0], line)
	of.marks, of.rare = of.marks[:0], of.rare[:0]
	values, all, strangest := r.places.take(line, of)
	rarity, rarest := r.words.take(of)
	parts = Parts{
		B: r.b.take(rarity),
		E: r.e.take(r.crowds.take(line)),
		V: bitsOf(r.values.take(of.tokens.frame, valueTimes*values)),
		W: r.w.take(all),
		F: r.trouble.take(line, of),
	}
	s := max(0, parts.B+parts.E+parts.V+parts.W+parts.F)
	prior := float64(usualLines * exp(-s/usualSlope))
	p = r.sum.share(s, sumLeast, prior, usualLines)
	r.sum.put(s, sumLeast, p)
	if rarest.to > 0 && (parts.B+parts.E > parts.V+parts.W || strangest.to == 0) {
		strangest = placed{
			from: rarest.from, to: rarest.to, cell: ownPlace, lines: int64(rarest.lines),
			mark: incidents.Mark(rarest.key), place: incidents.Mark(rarest.key),
		}
	}
	r.strangest = strangest
	return p, parts, strangest.from, strangest.to
}

// why explains why the last line is strange. It returns the strangest part of the line. It also
// returns the usual tokens in the place of this part, or the number of earlier lines with the part.
func (r *Rating) why(line []byte) (w incidents.Why) {
	s := &r.strangest
	if s.to > 0 {
		token := line[s.from:min(s.to, s.from+whyBytes)]
		w = incidents.Why{Before: wordBefore(line[:s.from]), Token: text(token)}
		if w.Rare = s.cell == ownPlace; w.Rare {
			w.Lines = s.lines
			return w
		}
		w.Usual = r.places.cells[s.cell].usual(nil, line[s.from:s.to])
	}
	return w
}

// whyBytes is the maximum number of displayed bytes of a token, and of the word before the token.
const whyBytes = 48

// wordBefore returns the last word of a piece of a line: HTTP/1.1 in "GET / HTTP/1.1".
func wordBefore(line []byte) string {
	to := len(line)
	for to > 0 && !inName(line[to-1]) {
		to--
	}
	from := to
	for from > 0 && to-from < whyBytes && !separates(line[from-1]) {
		from--
	}
	return text(line[from:to])
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "") }

// take returns the surprise, in bits, of a score of at least the given score, and adds the score.
func (t *tail) take(score float64) float64 {
	p := t.p(score)
	t.add(score, p)
	return bitsOf(p)
}
