package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/weights"
)

// LinesBytes is the memory of what a stream keeps of its lines, at most.
const LinesBytes = lines.MeterBytes

// WatchLines makes lines of the stream's text from an offset on, at which the stream is or will
// come by; between two pieces of text. A stream that makes lines of its text already goes on. The
// lines do not change what the stream learns, nor its scores.
func (s *Stream) WatchLines(from int64) {
	s.linesFrom = &from
	s.beginLines()
}

// beginLines begins the lines where the stream has come to their offset.
func (s *Stream) beginLines() {
	if s.lines == nil && s.linesFrom != nil && s.Tally.Bytes >= *s.linesFrom {
		s.lines = lines.NewMeter()
	}
}

// LinesFrom is the offset at which the lines of the stream's text begin; false if none are made of
// the text that comes next.
func (s *Stream) LinesFrom() (offset int64, ok bool) {
	if s.lines == nil {
		return 0, false
	}
	return s.Tally.Bytes - s.lines.Bytes(), true
}

// addLines lets a meter take in the text at an offset of a stream, with its scores. Every line that
// ends in the text goes to each, which may be nil, with its offset in the stream.
func addLines(
	m *lines.Meter, offset int64, text []byte, scores Scores, each func(*lines.Line),
) {
	visit := each
	if each != nil {
		visit = atOffset(offset-m.Bytes(), each)
	}
	for i, b := range text { // a token is a byte
		baseline := 0.
		if scores.Baseline != nil {
			baseline = cost(scores.Baseline[i])
		}
		m.Add(b, cost(scores.NLL[i]), baseline, visit)
	}
}

// RestOfLines gives the line under way, if there is one, as if it ended here; the stream stays as
// it is. The line is valid until each returns.
func (s *Stream) RestOfLines(each func(*lines.Line)) {
	if s.lines != nil && s.lines.Pending() > 0 {
		s.lines.Clone().End(atOffset(s.Tally.Bytes-s.lines.Bytes(), each))
	}
}

// atOffset gives lines the offsets that they have where their text begins at an offset.
func atOffset(begin int64, each func(*lines.Line)) func(*lines.Line) {
	return func(l *lines.Line) {
		l.Offset += begin
		each(l)
	}
}

// cost is a token's cost in bits. A rounding may leave less than nothing.
func cost(nll float32) float64 { return max(0, float64(nll)/math.Ln2) }

// tensorLines is the tensor of a snapshot that has the state of the lines, as bytes.
const tensorLines = "lines"

// linesTensor is the state of the stream's lines.
func (s *Stream) linesTensor() weights.StoredTensor {
	state := s.lines.AppendState(nil)
	return weights.StoredTensor{
		Name: tensorLines, DType: weights.U8, Shape: []int{len(state)}, Bytes: int64(len(state)),
		Data: bytes.NewReader(state),
	}
}

// readLines reads the state of the lines, if the snapshot has one.
func (s *Stream) readLines(f *weights.Stored) error {
	t, ok := f.Tensor(tensorLines)
	if !ok {
		return nil
	}
	if t.DType != weights.U8 || len(t.Shape) != 1 || t.Bytes > lines.StateBytesMax {
		return fmt.Errorf("tensor %q is %s%v, expected %s with one dimension of at most %d",
			tensorLines, t.DType, t.Shape, weights.U8, lines.StateBytesMax)
	}
	state := make([]byte, t.Bytes)
	if _, err := io.ReadFull(t.Reader(), state); err != nil {
		return err
	}
	meter, err := lines.ReadState(state)
	if err == nil && meter.Bytes() > s.Tally.Bytes {
		err = errors.New("its lines have more text than the stream")
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", tensorLines, err)
	}
	s.lines = meter
	return nil
}
