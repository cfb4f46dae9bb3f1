package lmserve

import (
	"io"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Line is a line of a stream's text, and how strange it is for the lines before it. What strange
// means is in docs/watch.md.
type Line struct {
	Number int64 // from 1
	Offset int64 // of its first byte in the stream's text
	Bytes  int64 // its newline among them

	Bits     float64 // what it cost the stream: less for what the stream expected
	Baseline float64 // the same under the static model; 0 unless Settings.Baseline asks for it

	// Rank is n where the line is the strangest of about n lines like those before it. Before many
	// lines have been seen the number means little: Warm says whether there were enough.
	Rank int64
	Warm bool
	// P is the probability that a line is at least as strange; Rank is 1/P, rounded down.
	P float64

	// Text is the line without its newline, or its first 4096 bytes; it is valid until the function
	// that was called with the line returns. The strangest part of it is Text[From:To], nothing
	// where the place is not known.
	Text     []byte
	From, To int64
}

// FeedLines does what Feed does, and calls each with every line that ends in the text. Lines are
// counted from the stream's first call of FeedLines on, and go on in snapshots and forks. A line is
// rated before the stream knows what comes next, and a call may end within one.
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

// Lines is FeedLines as an io.Writer, which never fails.
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

// LastLine calls each with the line under way, if there is one, as if it ended here. The stream
// stays as it is.
func (s *Stream) LastLine(each func(Line)) {
	s.state.RestOfLines(func(l *lines.Line) { each(lineOf(l)) })
}

func lineOf(l *lines.Line) Line {
	return Line{
		Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Bits: l.Bits, Baseline: l.Baseline,
		Rank: l.Rank(), Warm: l.Warm(), P: l.P, Text: l.Text, From: l.From, To: l.To,
	}
}
