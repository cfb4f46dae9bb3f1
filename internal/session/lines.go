package session

import (
	"bytes"
	"context"
	"slices"

	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/internal/stream"
)

// watchLines makes lines of a session's text from where it is, if none are made yet. The offset
// stands in the head before text comes after it, so that a recovery begins the lines there as well.
// The request feeds the session. A drain waits for it.
func (e *engine) watchLines(ctx context.Context, s *liveSession) error {
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	if err := e.states.open(ctx, s); err != nil {
		return err
	}
	defer s.unlock()
	if s.LinesFrom != nil {
		return nil
	}
	if err := e.states.reserveNow(s.memory, stream.LinesBytes); err != nil {
		return err
	}
	h := s.head
	h.LinesFrom = new(s.stream.Tally.Bytes)
	if err := e.journal.setHeadLocked(ctx, s, &h); err != nil {
		return err
	}
	s.noteHeadLocked(&h)
	s.stream.WatchLines(*h.LinesFrom)
	return nil
}

// lines gives what takes in the lines that end in a chunk; nil if nobody asks for lines.
func (r *reports) lines(c *Chunk) func(*lines.Line) {
	if !r.options.Lines {
		return nil
	}
	return func(l *lines.Line) { c.Lines = append(c.Lines, r.line(l, true)) }
}

// line is what the caller is told of a line, which has ended or is under way.
func (r *reports) line(l *lines.Line, ended bool) Line {
	line := Line{
		Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Chars: l.Chars, Bits: l.Bits,
		Strangeness: l.Strangeness, Cut: l.Cut, Ended: ended,
	}
	if r.s.Settings.Baseline {
		line.BaselineBits = new(l.Baseline)
	}
	if r.options.Text {
		line.Text = bytes.Clone(l.Text)
	}
	if r.options.TokenBits {
		line.TokenBits = slices.Clone(l.Costs)
	}
	return line
}

// rest reports the line under way at the end of a text.
func (r *reports) rest(st *stream.Stream) {
	if r.options.Lines && r.sum.Bytes > 0 {
		st.RestOfLines(func(l *lines.Line) { r.sum.Rest = new(r.line(l, false)) })
	}
}

// restOfLines reports the line under way at the end of a text that was fed.
func (f *feeder) restOfLines(ctx context.Context) error {
	if !f.options.Lines || f.sum.Bytes == 0 {
		return nil
	}
	if err := f.engine.life.Enter(); err != nil {
		return err
	}
	defer f.engine.life.Leave()
	if err := f.engine.states.open(ctx, f.s); err != nil {
		return err
	}
	defer f.s.unlock()
	f.rest(f.s.stream)
	return nil
}
