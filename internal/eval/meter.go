package eval

import (
	"fmt"
	"math"
	"slices"
)

// meter adds up the bits of a text, byte by byte, and notes the sum at its marks.
type meter struct {
	marks []int64   // counts of bytes, ascending
	at    []float64 // bits of the first marks[i] bytes, as far as the text has come
	bytes int64
	bits  float64
}

// add takes the scores of the next bytes, in nats.
func (m *meter) add(nll []float32) {
	for _, v := range nll {
		m.bits += float64(v) / math.Ln2
		m.bytes++
		if next := len(m.at); next < len(m.marks) && m.bytes == m.marks[next] {
			m.at = append(m.at, m.bits)
		}
	}
}

// upTo is the bits of the first n bytes, n 0 or a mark; NaN beyond what was scored.
func (m *meter) upTo(n int64) float64 {
	if n == 0 {
		return 0
	}
	if i, _ := slices.BinarySearch(m.marks, n); i < len(m.at) {
		return m.at[i]
	}
	return math.NaN()
}

// A method has diverged when a score is not a number, or when a stretch of guardBytes costs more
// than maxBits a byte. A uniform guess costs 8 bits a byte, and a static model of text that reads a
// binary file about 16.
const (
	guardBytes = 1024
	maxBits    = 64
)

// guard watches a meter for divergence.
type guard struct {
	meter *meter
	bytes int64 // bytes and bits at the beginning of the stretch that is watched
	bits  float64
}

// check returns the reason why the method has diverged, "" if it has not.
func (g *guard) check() string {
	if sum := g.meter.bits; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return "a score is not a finite number"
	}
	if g.meter.bytes-g.bytes < guardBytes {
		return ""
	}
	mean := (g.meter.bits - g.bits) / float64(g.meter.bytes-g.bytes)
	if mean > maxBits {
		return fmt.Sprintf("%.0f bits a byte over %d bytes, expected at most %d", mean, g.meter.bytes-g.bytes, maxBits)
	}
	g.bytes, g.bits = g.meter.bytes, g.meter.bits
	return ""
}

const kb = 1024

// firsts are the lengths of the curve: the first 2, 8, 32, 128 KB of a document.
var firsts = []int64{2 * kb, 8 * kb, 32 * kb, 128 * kb}

// perOctave is the number of marks between a length and its double.
const perOctave = 4

// octaves returns marks from 64 bytes to n, evenly spaced on a logarithmic scale. The powers of two
// are among them.
func octaves(n int64) (marks []int64) {
	for k := 0; ; k++ {
		mark := int64(math.Round(64 * math.Exp2(float64(k)/perOctave)))
		if mark > n {
			return marks
		}
		marks = append(marks, mark)
	}
}

// running returns the marks of a stream of n bytes, and the size of the window that ends at each.
// The window is a power of two between a 32nd and a 16th of the stream, but at least 1 KB; the
// marks are an eighth of it apart.
func running(n int64) (marks []int64, window int64) {
	for window = kb; window*32 <= n; window *= 2 {
	}
	for mark := window / 8; mark <= n; mark += window / 8 {
		marks = append(marks, mark)
	}
	return marks, window
}

// span is a stretch of bytes, by counts from the beginning.
type span struct{ from, to int64 }

// firstSpans are the spans of the curve.
func firstSpans() (spans []span) {
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

// runningSpans returns the last window bytes before each mark, or what there is at the beginning of
// the stream.
func runningSpans(marks []int64, window int64) (spans []span) {
	for _, to := range marks {
		spans = append(spans, span{max(0, to-window), to})
	}
	return spans
}

// average is the mean over texts of the bits per byte in some spans.
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

// add takes a text of n bytes, metered under every method.
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

// points are the spans that any text reached.
func (a *average) points() []Point {
	points := []Point{} // never null in JSON
	for i, s := range a.spans {
		if a.texts[i] == 0 {
			continue
		}
		p := Point{From: s.from, To: s.to, Texts: a.texts[i], BitsPerByte: make([]*float64, len(a.bits[i]))}
		for k, bits := range a.bits[i] {
			if !math.IsNaN(bits) {
				mean := bits / float64(int64(a.texts[i])*(s.to-s.from))
				p.BitsPerByte[k] = &mean
			}
		}
		points = append(points, p)
	}
	return points
}
