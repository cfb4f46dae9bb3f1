package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/weights"
)

// WatchLines makes the stream divide its text into lines from offset `from` on. The offset must not
// be smaller than the stream's offset. Call WatchLines between two pieces of text. If the stream
// already makes lines, they continue. The lines change neither learning nor scores.
func (s *Stream) WatchLines(from int64) {
	s.linesFrom = &from
	s.beginLines()
}

// TroubleBy sets the list of trouble words (lines.TroubleWords) for the rating of lines. Call
// TroubleBy before WatchLines.
func (s *Stream) TroubleBy(list string) { s.trouble = list }

// TroubleWords returns the list of trouble words for the rating of lines, or "" if there is none.
func (s *Stream) TroubleWords() string {
	if s.lines == nil {
		return ""
	}
	return s.lines.TroubleWords()
}

func (s *Stream) beginLines() {
	if s.lines == nil && s.linesFrom != nil && s.Offset() >= *s.linesFrom {
		s.lines = lines.NewMeter()
		s.lines.Trouble(s.trouble)
	}
}

// WatchRecords groups the stream's lines into records, from offset `from` on. The offset may lie
// before or after the stream's offset. Call WatchRecords between two pieces of text. Parameter
// start is the pattern of a record's first line; "" means the default pattern. A call with another
// offset than the earlier call discards the open record.
func (s *Stream) WatchRecords(from int64, start string) {
	if s.records != nil && s.records.From() == from {
		s.records.StartAt(start)
		return
	}
	s.records, s.recordsNext = nil, lines.NewRecords(from, start)
}

// DropRecords stops making records of the stream's lines.
func (s *Stream) DropRecords() { s.records, s.recordsNext = nil, nil }

// withRecords wraps function `each`, so that each also receives the records of the lines.
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

// RestOfRecords calls function `each` with the open record, as if the text ended here. If the open
// line begins a new record, RestOfRecords also passes that record. The stream does not change.
// Records are valid during the call.
func (s *Stream) RestOfRecords(each func(*lines.Line)) {
	if s.records == nil {
		return
	}
	rest := s.records.Clone()
	s.RestOfLines(func(l *lines.Line) { rest.Take(l, each) })
	rest.Rest(each)
}

// LinesFrom returns the offset at which the stream's lines begin. ok is false if the stream makes
// no lines.
func (s *Stream) LinesFrom() (offset int64, ok bool) {
	if s.lines == nil {
		return 0, false
	}
	return s.Offset() - s.lines.Bytes(), true
}

// addLines feeds part of the scored text to a line meter. Parameter offset is the stream offset at
// which the meter's lines begin. addLines calls function `each`, if not nil, with every line that
// ends in the part. The offsets of these lines count from the beginning of the stream.
func addLines(
	m *lines.Meter, offset int64, scores Scores, from, to int, each func(*lines.Line),
) {
	visit := each
	if each != nil {
		visit = atOffset(offset, each)
	}
	scores.eachByte(from, to, func(b byte, bits, baseline float64) {
		m.Add(b, max(0, bits), max(0, baseline), visit) // rounding may give a negative cost
	})
}

// RestOfLines calls function `each` with the open line, if any, as if the line ended here. The
// stream does not change. The line is valid during the call.
func (s *Stream) RestOfLines(each func(*lines.Line)) {
	if s.lines != nil && s.lines.Pending() > 0 {
		s.lines.Clone().End(atOffset(s.Offset()-s.lines.Bytes(), each))
	}
}

// atOffset wraps function `each`: the wrapper adds begin to a line's offsets before the call.
func atOffset(begin int64, each func(*lines.Line)) func(*lines.Line) {
	return func(l *lines.Line) {
		l.Offset += begin
		for i := range l.Incidents {
			l.Incidents[i].Offset += begin
		}
		each(l)
	}
}

// Incidents returns the remembered incidents of the stream's lines, newest first.
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

// SilentAfter returns the time without a new line after which the silence is unusual. It returns
// false if there are too few lines for an estimate.
func (s *Stream) SilentAfter() (time.Duration, bool) {
	if s.lines == nil {
		return 0, false
	}
	return s.lines.SilentAfter()
}

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
		err = errors.New("the line meter's state covers more text than the stream has read")
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
		err = errors.New("the records begin after the end of the stream's text")
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", tensorRecords, err)
	}
	return nil
}
