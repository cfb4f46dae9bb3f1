package lines

import (
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// Rating says how strange each line of a text is for the lines before it, from what stands in it
// alone: it needs no costs of bytes. Four parts measure, each in bits:
//
//	B  how rare the line's words are (rarity.go)
//	E  how rare lines like it are (crowd.go)
//	V  how unlike its values are to those that stood in their places (places.go), among lines of the
//	   same frame (histogram.go)
//	W  how unlike its tokens are to those that stood in their places
//
// B, E and W are the tail probabilities of their scores among all lines so far. S is the sum of the
// four, and P the tail probability of S, shrunk to that of ordinary logs: with the weight H(S) of
// the lines with an S as large, W of all and w of the next,
//
//	P = (H(S) + 256 w 2^(-S/3.7)) / (W + 256 w)
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

	strangest placed // in the line taken last
	scratch   scratch
}

// scratch is memory that means nothing between two lines.
type scratch struct {
	tokens tokens
	runs   []run
	words  []spacedWord
	marks  []incidents.Mark // of all that stands in the line
	rare   []incidents.Mark // of what is rare in it
	found  []key            // words of trouble
}

const (
	valueTimes = 4   // of V's score, in bins of the histograms
	usualLines = 256 // lines of ordinary logs that the prior of S stands for
	usualSlope = 3.7 // bits of S by which half as many lines of ordinary logs are left
	sumLeast   = 1   // sums below it do not differ much
)

// NewRating returns the rating of an empty text.
func NewRating() *Rating {
	return &Rating{b: newTail(), e: newTail(), w: newTail(), sum: newTail()}
}

// Parts are the bits of the parts of a line's rating.
type Parts struct{ B, E, V, W, F float64 }

// Trouble makes the rating of an empty text one by a list of words of trouble, too, which
// TroubleWords returned; "": none.
func (r *Rating) Trouble(list string) { r.trouble.begin(list) }

// Take rates a line without its newline, and takes it in. From and to bound what stands strangest
// in it; nothing, if that is nothing.
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
	if parts.B+parts.E > parts.V+parts.W && rarest.to > 0 {
		strangest = placed{
			from: rarest.from, to: rarest.to, cell: ownPlace, lines: int64(rarest.lines),
			mark: incidents.Mark(rarest.key), place: incidents.Mark(rarest.key),
		}
	}
	r.strangest = strangest
	return p, parts, strangest.from, strangest.to
}

// why says why the line is strange that was taken last: what stands strangest in it, and what
// usually stands there, or how rare it is wherever it stands.
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

// whyBytes is how many bytes of a token, and of the word before it, are shown.
const whyBytes = 48

// wordBefore is what stands last between separators in a line: HTTP/1.1 of "GET / HTTP/1.1".
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

// text is what is whole characters of some bytes.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "") }

// take returns the bits of the tail probability of a score, and takes it in.
func (t *tail) take(score float64) float64 {
	p := t.p(score)
	t.add(score, p)
	return bitsOf(p)
}
