package eval

import (
	"math"
	"slices"

	"github.com/lmserve/lmserve/tokenizer"
)

// meter sums the bits of a text, token by token, and records the sum at its marks.
type meter struct {
	unknown int32           // the token of unknown words, -1 if there is none
	marks   []int64         // counts of tokens, ascending
	at      []float64       // bits of the first marks[i] tokens, as far as the text has been read
	tally   tokenizer.Tally // totals of all tokens so far
}

// add adds the next tokens with their scores, in nats.
func (m *meter) add(tokens *tokenizer.Tokens, nll []float32) {
	bits, n := m.tally.Bits, m.tally.Tokens
	for _, v := range nll {
		bits += float64(v) / math.Ln2
		n++
		if next := len(m.at); next < len(m.marks) && n == m.marks[next] {
			m.at = append(m.at, bits)
		}
	}
	m.tally.Count(tokens, m.unknown, nll)
}

// upTo returns the bits of the first n tokens, where n is 0 or a mark, or NaN beyond the scored
// text.
func (m *meter) upTo(n int64) float64 {
	if n == 0 {
		return 0
	}
	if i, _ := slices.BinarySearch(m.marks, n); i < len(m.at) {
		return m.at[i]
	}
	return math.NaN()
}

const kb = 1024

// The lengths of the curve: the first 2, 8, 32, 128 KB of a document, or similar lengths in
// words.
var (
	firstBytes = []int64{2 * kb, 8 * kb, 32 * kb, 128 * kb}
	firstWords = []int64{512, 2048, 8192, 32768}
)

// perOctave is the number of marks between a length and its double.
const perOctave = 4

// octaves returns marks from 64 tokens to n, evenly spaced on a logarithmic scale, including the
// powers of two.
func octaves(n int64) (marks []int64) {
	for k := 0; ; k++ {
		mark := int64(math.Round(64 * math.Exp2(float64(k)/perOctave)))
		if mark > n {
			return marks
		}
		marks = append(marks, mark)
	}
}

// running returns the marks of a stream of n tokens, and the size of the window that ends at each
// mark. The window is a power of two between a 32nd and a 16th of the stream, but at least 1024.
// The distance between marks is an eighth of the window. The last mark is at most `most`.
func running(n, most int64) (marks []int64, window int64) {
	for window = kb; window*32 <= n; window *= 2 {
	}
	for mark := window / 8; mark <= most; mark += window / 8 {
		marks = append(marks, mark)
	}
	return marks, window
}

// span is a range of tokens, counted from the beginning.
type span struct{ from, to int64 }

// firstSpans returns the spans of the curve for the given lengths.
func firstSpans(firsts []int64) (spans []span) {
	for _, n := range firsts {
		spans = append(spans, span{0, n})
	}
	return spans
}

// octaveSpans returns a window around each mark, half an octave on either side.
func octaveSpans(marks []int64) (spans []span) {
	for i := perOctave; i < len(marks); i++ {
		spans = append(spans, span{marks[i-perOctave], marks[i]})
	}
	return spans
}

// runningSpans returns for each mark the span before it. The span has the length of the window, or
// is shorter at the beginning of the stream.
func runningSpans(marks []int64, window int64) (spans []span) {
	for _, to := range marks {
		spans = append(spans, span{max(0, to-window), to})
	}
	return spans
}

// average is the mean over texts of the bits per token in some spans.
type average struct {
	spans []span
	texts []int       // [span] number of texts that are long enough
	bits  [][]float64 // [span][method] sum over those texts; NaN once a method diverged in one
}

func newAverage(spans []span, methods int) *average {
	a := &average{spans: spans, texts: make([]int, len(spans)), bits: make([][]float64, len(spans))}
	for i := range a.bits {
		a.bits[i] = make([]float64, methods)
	}
	return a
}

// add adds a text of n tokens, metered under every method.
func (a *average) add(n int64, meters []*meter) {
	for i, s := range a.spans {
		if s.to > n {
			continue
		}
		a.texts[i]++
		for k, m := range meters {
			a.bits[i][k] += m.upTo(s.to) - m.upTo(s.from)
		}
	}
}

// points returns the spans that at least one text reached, of bytes or of words.
func (a *average) points(words bool) []Point {
	points := []Point{} // never null in JSON
	for i, s := range a.spans {
		if a.texts[i] == 0 {
			continue
		}
		p, means := Point{From: s.from, To: s.to, Texts: a.texts[i]},
			make([]*float64, len(a.bits[i]))
		for k, bits := range a.bits[i] {
			if !math.IsNaN(bits) {
				means[k] = new(bits / float64(int64(a.texts[i])*(s.to-s.from)))
			}
		}
		if words {
			p.BitsPerToken = means
		} else {
			p.BitsPerByte = means
		}
		points = append(points, p)
	}
	return points
}
