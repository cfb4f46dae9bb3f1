package eval

import (
	"math"
	"slices"

	"github.com/lmserve/lmserve/tokenizer"
)

// meter sums the bits of a text, token by token. It records the running sum after each number of
// tokens in `marks`.
type meter struct {
	unknown int32 // the token for unknown words; -1: none
	marks   []int64
	at      []float64
	tally   tokenizer.Tally
}

// add adds the next tokens; nll has their negative log-likelihoods in nats.
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

// upTo returns the bits of the first n tokens, or NaN if the text has fewer so far. Sums are
// recorded only at marks, so n is 0 or a mark.
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

// Result.Curve has the mean bits per token of the first 2, 8, 32 and 128 KB of documents. A model
// of words has similar lengths, counted in words.
var (
	firstBytes = []int64{2 * kb, 8 * kb, 32 * kb, 128 * kb}
	firstWords = []int64{512, 2048, 8192, 32768}
)

// perOctave is the number of marks for each doubling of the length.
const perOctave = 4

// octaves returns the marks for a text of n tokens: numbers from 64 to n, four per doubling, evenly
// spaced on a logarithmic scale.
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
// mark. The window is a power of two: a 32nd to a 16th of the stream, but at least 1024 tokens.
// Marks are an eighth of a window apart, and reach up to `most` tokens.
func running(n, most int64) (marks []int64, window int64) {
	for window = kb; window*32 <= n; window *= 2 {
	}
	for mark := window / 8; mark <= most; mark += window / 8 {
		marks = append(marks, mark)
	}
	return marks, window
}

// span is a range of tokens, counted from the beginning of the text; `to` is excluded.
type span struct{ from, to int64 }

func firstSpans(firsts []int64) (spans []span) {
	for _, n := range firsts {
		spans = append(spans, span{0, n})
	}
	return spans
}

// octaveSpans returns the spans that begin at a mark and end at the mark of twice its length.
func octaveSpans(marks []int64) (spans []span) {
	for i := perOctave; i < len(marks); i++ {
		spans = append(spans, span{marks[i-perOctave], marks[i]})
	}
	return spans
}

// runningSpans returns one span for each mark: the last `window` tokens before the mark, or fewer
// at the beginning of the stream.
func runningSpans(marks []int64, window int64) (spans []span) {
	for _, to := range marks {
		spans = append(spans, span{max(0, to-window), to})
	}
	return spans
}

// average computes the mean over texts of the bits per token, for each span.
type average struct {
	spans []span
	texts []int
	// bits[span][method] is a sum over texts, NaN if the method diverged in one
	bits [][]float64
}

func newAverage(spans []span, methods int) *average {
	a := &average{spans: spans, texts: make([]int, len(spans)), bits: make([][]float64, len(spans))}
	for i := range a.bits {
		a.bits[i] = make([]float64, methods)
	}
	return a
}

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

// points returns a point for each span that at least one text covers. If `words` is true, the
// points are in bits per token, otherwise in bits per byte.
func (a *average) points(words bool) []Point {
	points := []Point{} // an empty list in JSON, not null
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
