package session

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// watching is the head of a session at an offset from which on text comes with these options: it
// says of lines what they ask for.
func (h head) watching(o ScoreOptions, at int64) head {
	if o.Lines && h.LinesFrom == nil {
		h.LinesFrom = &at
	}
	h.ByLine = h.ByLine || o.Learn == LearnUnflagged
	return h
}

// checkLearn refuses to learn by lines where that cannot be done.
func checkLearn(s *session, o ScoreOptions) error {
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
