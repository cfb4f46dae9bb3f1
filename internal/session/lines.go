package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/stream"
)

// watchLines makes lines of a session's text from where it is, if none are made yet. The offset
// stands in the head before text comes after it, so that a recovery begins the lines there as well.
// So does it that the text may be learnt by lines, for which the state needs memory.
// The request feeds the session, and waits for the computing of its state no longer than a limit, see
// states.openWithin. A drain waits for it.
func (e *engine) watchLines(
	ctx context.Context, s *liveSession, byLine bool, limit time.Duration,
) error {
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	if err := e.states.openWithin(ctx, s, limit); err != nil {
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
