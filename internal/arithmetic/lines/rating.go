package lines

import (
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// Rating rates how strange each line of a text is for the lines before it. It uses the text of
// the lines alone, no costs of bytes. Four parts measure, each in bits:
//
//	B  how rare the line's words are (rarity.go)
//	E  how rare similar lines are (crowd.go)
//	V  how unusual its values are in their places (places.go), among lines of the
//	   same frame (histogram.go)
//	W  how unusual its tokens are in their places
//
// B, E and W are the tail probabilities of their scores among all lines so far. S is the sum of
// the four. P is the tail probability of S, shrunk to that of ordinary logs. With the weight H(S)
// of the lines with at least S, the weight W of all lines and the weight w of the next,
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

	strangest placed // of the last line
	scratch   scratch
}

// scratch is working memory without state between lines.
type scratch struct {
	tokens tokens
	runs   []run
	words  []spacedWord
	marks  []incidents.Mark // of all parts of the line
	rare   []incidents.Mark // of its rare parts
	found  []key            // words of trouble
}

const (
	valueTimes = 4   // factor from V's score to the scale of the histograms
	usualLines = 256 // weight of the prior of S, in lines of ordinary logs
	usualSlope = 3.7 // bits of S that halve the number of ordinary lines above
	sumLeast   = 1   // sums below it hardly differ
)

// NewRating returns the rating of an empty text.
func NewRating() *Rating {
	return &Rating{b: newTail(), e: newTail(), w: newTail(), sum: newTail()}
}

// Parts are the bits of the parts of a line's rating.
type Parts struct{ B, E, V, W, F float64 }

// Trouble makes the rating of an empty text also use a list of words of trouble, as TroubleWords
// returns it. "" means no list.
func (r *Rating) Trouble(list string) { r.trouble.begin(list) }

// Take rates a line without its newline, and learns it. from and to bound its strangest part;
// they are equal if there is none.
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

// why explains why the last line is strange: its strangest part, and the usual tokens in that
// place, or how rare the part is anywhere.
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

// whyBytes is the maximum number of displayed bytes of a token, and of the word before it.
const whyBytes = 48

// wordBefore returns the last word between separators of a line: HTTP/1.1 of "GET / HTTP/1.1".
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

// text returns the whole characters of some bytes.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "") }

// take returns the bits of a score's tail probability, and adds the score.
func (t *tail) take(score float64) float64 {
	p := t.p(score)
	t.add(score, p)
	return bitsOf(p)
}
