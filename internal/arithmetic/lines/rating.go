package lines

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
type Rating struct {
	words   rarity
	crowds  crowds
	places  placeTable
	values  amongAlike
	b, e, w tail
	sum     tail

	strangest placed // in the line taken last
	scratch   scratch
}

// scratch is memory that means nothing between two lines.
type scratch struct {
	tokens tokens
	runs   []run
	words  []spacedWord
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
type Parts struct{ B, E, V, W float64 }

// Take rates a line without its newline, and takes it in. From and to bound what stands strangest in
// it; nothing, if that is nothing.
func (r *Rating) Take(line []byte) (p float64, parts Parts, from, to int) {
	of := &r.scratch
	of.tokens.cut(line)
	of.words = spaced(of.words[:0], line)
	values, all, strangest := r.places.take(line, of)
	rarity, rarest := r.words.take(of.words)
	parts = Parts{
		B: r.b.take(rarity),
		E: r.e.take(r.crowds.take(line)),
		V: bitsOf(r.values.take(of.tokens.frame, valueTimes*values)),
		W: r.w.take(all),
	}
	s := max(0, parts.B+parts.E+parts.V+parts.W)
	prior := float64(usualLines * exp(-s/usualSlope))
	p = r.sum.share(s, sumLeast, prior, usualLines)
	r.sum.put(s, sumLeast, p)
	if parts.B+parts.E > parts.V+parts.W && rarest.to > 0 {
		strangest = placed{
			from: rarest.from, to: rarest.to, cell: ownPlace, lines: int64(rarest.lines),
		}
	}
	r.strangest = strangest
	return p, parts, strangest.from, strangest.to
}

// Why says why a line is strange: what stands strangest in it, and what usually stands there, or how
// rare it is wherever it stands.
type Why struct {
	Before string   // the word before it
	Token  string   // as it is in the line
	Usual  []string // the beginnings of up to three tokens, the most frequent first
	Rare   bool     // the token is rare wherever it stands
	Lines  int64    // that had a rare token before
}

// why is that of the line that was taken last.
func (r *Rating) why(line []byte) (w Why) {
	s := &r.strangest
	if s.to > 0 {
		w = Why{Before: wordBefore(line[:s.from]), Token: string(line[s.from:s.to])}
		if w.Rare = s.cell == ownPlace; w.Rare {
			w.Lines = s.lines
			return w
		}
		w.Usual = r.places.cells[s.cell].usual(nil, line[s.from:s.to])
	}
	return w
}

// wordBefore is the last word of a text, none if something but separators follows it.
func wordBefore(text []byte) string {
	to := len(text)
	for to > 0 && !inName(text[to-1]) {
		to--
	}
	from := to
	for from > 0 && inName(text[from-1]) {
		from--
	}
	return string(text[from:to])
}

// take returns the bits of the tail probability of a score, and takes it in.
func (t *tail) take(score float64) float64 {
	p := t.p(score)
	t.add(score, p)
	return bitsOf(p)
}
