package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/weights"
)

// WatchLines makes lines of the stream's text from an offset on, at which the stream is or will
// come by; between two pieces of text. A stream that makes lines of its text already goes on. The
// lines do not change what the stream learns, nor its scores.
func (s *Stream) WatchLines(from int64) {
	s.linesFrom = &from
	s.beginLines()
}

// TroubleBy rates the stream's lines by a list of words of trouble, too (lines.TroubleWords), if
// they begin from here on; before WatchLines.
func (s *Stream) TroubleBy(list string) { s.trouble = list }

// TroubleWords is the list by which the stream's lines are rated; "" if there is none, or no line.
func (s *Stream) TroubleWords() string {
	if s.lines == nil {
		return ""
	}
	return s.lines.TroubleWords()
}

// beginLines begins the lines where the stream has come to their offset.
func (s *Stream) beginLines() {
	if s.lines == nil && s.linesFrom != nil && s.Offset() >= *s.linesFrom {
		s.lines = lines.NewMeter()
		s.lines.Trouble(s.trouble)
	}
}

// WatchRecords makes records of the stream's lines, if it makes lines, from an offset on, at which
// the stream is, was or will come by; between two pieces of text. Start is the pattern of how they
// begin, "" the default. Other records that the stream has made end, the last of them untold.
func (s *Stream) WatchRecords(from int64, start string) {
	if s.records != nil && s.records.From() == from {
		s.records.StartAt(start)
		return
	}
	s.records, s.recordsNext = nil, lines.NewRecords(from, start)
}

// DropRecords makes no records of the stream's lines any more.
func (s *Stream) DropRecords() { s.records, s.recordsNext = nil, nil }

// withRecords gives what takes in lines, each, and makes records of them.
func (s *Stream) withRecords(each func(*lines.Line)) func(*lines.Line) {
	if s.recordsNext != nil && s.Offset() >= s.recordsNext.From() {
		s.records, s.recordsNext = s.recordsNext, nil
	}
	if s.records == nil {
		return each
	}
	return func(l *lines.Line) {
		s.records.Take(l, each)
		if each != nil {
			each(l)
		}
	}
}

// RestOfRecords gives the record under way, and the one that the line under way begins, if it does,
// as if they ended here; the stream stays as it is. They are valid until each returns.
func (s *Stream) RestOfRecords(each func(*lines.Line)) {
	if s.records == nil {
		return
	}
	rest := s.records.Clone()
	s.RestOfLines(func(l *lines.Line) { rest.Take(l, each) })
	rest.Rest(each)
}

// LinesFrom is the offset at which the lines of the stream's text begin; false if none are made of
// the text that comes next.
func (s *Stream) LinesFrom() (offset int64, ok bool) {
	if s.lines == nil {
		return 0, false
	}
	return s.Offset() - s.lines.Bytes(), true
}

// addLines lets a meter, whose lines begin at an offset of the stream, take in a part of the text
// that was scored. Every line that ends in it goes to each, which may be nil, with its offset in
// the stream.
func addLines(
	m *lines.Meter, offset int64, scores Scores, from, to int, each func(*lines.Line),
) {
	visit := each
	if each != nil {
		visit = atOffset(offset, each)
	}
	scores.eachByte(from, to, func(b byte, bits, baseline float64) {
		m.Add(b, max(0, bits), max(0, baseline), visit) // a rounding may leave less than nothing
	})
}

// RestOfLines gives the line under way, if there is one, as if it ended here; the stream stays as
// it is. The line is valid until each returns.
func (s *Stream) RestOfLines(each func(*lines.Line)) {
	if s.lines != nil && s.lines.Pending() > 0 {
		s.lines.Clone().End(atOffset(s.Offset()-s.lines.Bytes(), each))
	}
}

// atOffset gives lines the offsets that they have where their text begins at an offset.
func atOffset(begin int64, each func(*lines.Line)) func(*lines.Line) {
	return func(l *lines.Line) {
		l.Offset += begin
		for i := range l.Incidents {
			l.Incidents[i].Offset += begin
		}
		each(l)
	}
}

// Incidents are those of the stream's lines that are remembered, the newest first.
func (s *Stream) Incidents() []incidents.Incident {
	if s.lines == nil {
		return nil
	}
	all := s.lines.Incidents()
	for i := range all {
		all[i].Offset += s.Offset() - s.lines.Bytes()
	}
	return all
}

// SilentAfter is how long the text has to be without a line until that is unusual; false as long as
// its lines do not tell.
func (s *Stream) SilentAfter() (time.Duration, bool) {
	if s.lines == nil {
		return 0, false
	}
	return s.lines.SilentAfter()
}

// readLines reads the state of the lines, if the snapshot has one.
func (s *Stream) readLines(f *weights.Stored) error {
	t, ok := f.Tensor(tensorLines)
	if !ok {
		return nil
	}
	state, err := readBytes(t, lines.StateBytesMax)
	if err != nil {
		return err
	}
	meter, err := lines.ReadState(state)
	if err == nil && meter.Bytes() > s.Offset() {
		err = errors.New("its lines have more text than the stream")
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", tensorLines, err)
	}
	s.lines = meter
	if t, ok = f.Tensor(tensorRecords); !ok {
		return nil
	}
	if state, err = readBytes(t, lines.RecordsBytesMax); err == nil {
		s.records, err = lines.ReadRecords(state)
	}
	if err == nil && s.records.From() > s.Offset() {
		err = errors.New("its records begin behind the stream")
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", tensorRecords, err)
	}
	return nil
}
