package session

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/internal/stream"
)

// watchLines makes lines of a session's text from where it is, if none are made yet. The offset
// stands in the head before text comes after it, so that a recovery begins the lines there as well.
// So does it that the text may be learnt by lines, for which the state needs memory.
// The request feeds the session. A drain waits for it.
func (e *engine) watchLines(ctx context.Context, s *liveSession, byLine bool) error {
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	if err := e.states.open(ctx, s); err != nil {
		return err
	}
	defer s.unlock()
	h, need := s.head, int64(0)
	if h.LinesFrom == nil {
		h.LinesFrom = new(s.stream.Tally.Bytes)
		need += stream.LinesBytes
	}
	if byLine && !h.ByLine {
		h.ByLine = true
		need += stream.HeldBytes(e.model, s.Settings)
	}
	if need == 0 {
		return nil
	}
	if err := e.states.reserveNow(s.memory, need); err != nil {
		return err
	}
	if err := e.journal.setHeadLocked(ctx, s, &h); err != nil {
		return err
	}
	s.noteHeadLocked(&h)
	s.stream.WatchLines(*h.LinesFrom)
	return nil
}

// checkLearn refuses to learn by lines where that cannot be done.
func checkLearn(s *liveSession, o ScoreOptions) error {
	switch {
	case o.Learn != LearnUnflagged:
		return nil
	case !o.Lines:
		return &FieldError{"learn", LearnUnflagged, "another without lines"}
	case !stream.LearnsByLine(s.Settings.Method):
		return &FieldError{"learn", LearnUnflagged,
			"another with the method " + s.Settings.Method + ", which learns from all that it reads"}
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return &FieldError{"threshold", fmt.Sprint(o.Threshold), "a number over 0, at most 1"}
	}
	return nil
}

// lines gives what takes in the lines that end in a chunk; nil if nobody asks for lines.
func (r *reports) lines(c *Chunk, how stream.Lesson) func(*lines.Line) {
	if !r.options.Lines {
		return nil
	}
	return func(l *lines.Line) {
		n := uint16(len(c.Lines))
		line := r.line(l, true)
		line.Unlearnt = slices.Contains(how.Skipped, n) || how.ByLine && l.Bytes > stream.HeldMax
		c.Lines = append(c.Lines, line)
	}
}

// lesson says how a text is learnt that was scored and is not accepted yet: by lines, of which those
// are skipped that are stranger than the request's threshold.
func (f *feeder) lesson(text []byte, scores stream.Scores) (how stream.Lesson) {
	if f.given != nil {
		return *f.given
	}
	if f.options.Learn != LearnUnflagged {
		return how
	}
	how.ByLine = true
	var ends uint16
	f.s.stream.PreviewLines(text, scores, func(l *lines.Line) {
		if l.Warm() && l.P <= f.options.Threshold {
			how.Skipped = append(how.Skipped, ends)
		}
		ends++
	})
	return how
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
