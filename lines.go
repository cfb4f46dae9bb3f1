package lmserve

import (
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Line is a line of a stream's text. It has a rating of how strange the line is after the earlier
// lines. docs/watch.md explains the rating.
type Line struct {
	Number int64 // number of the line, from 1
	Offset int64 // offset of the line's first byte in the stream's text
	Bytes  int64 // length of the line, with its newline

	// the line's information in bits under the stream's model: low if the line was expected
	Bits float64
	// the line's information in bits under the static model; 0 without Settings.Baseline
	Baseline float64

	// Rank is n if about one in n lines is at least as strange as this line. Warm reports whether
	// the stream has seen enough lines for a reliable Rank.
	Rank int64
	Warm bool
	// P is the probability that an ordinary line is at least as strange as this line. Rank is 1/P,
	// rounded down.
	P float64

	// Text is the line without its newline, or its first 4096 bytes. It is valid until the callback
	// that receives the line returns. Text[From:To] is the strangest part of the line, or empty if
	// the part is not known.
	Text     []byte
	From, To int64
}

// FeedLines feeds text like Feed, and calls the function `each` for every line that ends in the
// text. Lines are counted from the stream's first call of FeedLines; snapshots and forks keep the
// count. A line's rating does not depend on later text. The text may end within a line.
func (s *Stream) FeedLines(text []byte, each func(Line)) (bits float64) {
	before := s.state.Tally.Bits
	if _, begun := s.state.LinesFrom(); !begun {
		s.state.WatchLines(s.state.Offset())
	}
	s.model.compute(func(w *stream.Worker) {
		w.FeedLines(s.state, text, func(l *lines.Line) { each(lineOf(l)) })
	})
	return s.state.Tally.Bits - before
}

// Lines returns an io.Writer that feeds the written text by FeedLines. Its method Write never
// fails.
func (s *Stream) Lines(each func(Line)) io.Writer { return lineWriter{s, each} }

type lineWriter struct {
	stream *Stream
	each   func(Line)
}

// Write implements io.Writer.
func (w lineWriter) Write(text []byte) (int, error) {
	w.stream.FeedLines(text, w.each)
	return len(text), nil
}

// LastLine calls the function `each` with the last line, if the text does not end with a newline.
// This line is rated by its text so far. The stream does not change.
func (s *Stream) LastLine(each func(Line)) {
	s.state.RestOfLines(func(l *lines.Line) { each(lineOf(l)) })
}

func lineOf(l *lines.Line) Line {
	return Line{
		Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Bits: l.Bits, Baseline: l.Baseline,
		Rank: l.Rank(), Warm: l.Warm(), P: l.P, Text: l.Text, From: l.From, To: l.To,
	}
}
