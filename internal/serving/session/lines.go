package session

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// watching is the head of a session at an offset from which on text comes with these options: it
// says of lines what they ask for.
func (h head) watching(o ScoreOptions, at int64) head {
	if o.Lines && h.LinesFrom == nil {
		h.LinesFrom, h.TroubleWords = &at, o.TroubleWords
	}
	other := o.RecordStart != nil && h.Records != nil && *o.RecordStart != h.Records.Start
	if o.Records && (h.Records == nil || other) {
		h.Records = &recordRule{From: at}
		if o.RecordStart != nil {
			h.Records.Start = *o.RecordStart
		}
	}
	h.ByLine = h.ByLine || o.Learn == LearnUnflagged
	return h
}

// checkTrouble refuses another list of words of trouble than the lines of a session began with.
func (h *head) checkTrouble(o ScoreOptions) error {
	if h.LinesFrom == nil || o.TroubleWords == "" || o.TroubleWords == h.TroubleWords {
		return nil
	}
	want := "none"
	if h.TroubleWords != "" {
		want = fmt.Sprintf("%.80q", h.TroubleWords)
	}
	return &FieldError{"trouble_words", fmt.Sprintf("%.80q", o.TroubleWords),
		want + ", as in the first text with lines; use another session for another list"}
}

// isTroubleList reports whether a list is one that lines.TroubleWords returns, or empty.
func isTroubleList(list string) bool {
	same, err := lines.TroubleWords(list)
	return list == "" || err == nil && same == list
}

// TroubleWords reads a list of words of trouble, for ScoreOptions.
func TroubleWords(text string) (list string, err error) { return lines.TroubleWords(text) }

// recordRule says how records are made of a session's lines. It is never changed.
type recordRule struct {
	From  int64  `json:"from"`            // the offset from which on they are made so
	Start string `json:"start,omitempty"` // the pattern of how records begin; "": the default
}

// CheckRecordStart refuses what is no pattern of how records begin. The error says what was
// expected.
func CheckRecordStart(pattern string) error { return lines.CheckPattern(pattern) }

// watch makes lines and records of a stream, as the head says.
func (h *head) watch(st *stream.Stream) {
	if h.LinesFrom != nil {
		st.TroubleBy(h.TroubleWords)
		st.WatchLines(*h.LinesFrom)
	}
	if h.Records != nil {
		st.WatchRecords(h.Records.From, h.Records.Start)
	} else {
		st.DropRecords()
	}
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
			"another with the method " + s.Settings.Method +
				", which learns from all that it reads"}
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return &FieldError{"threshold", fmt.Sprint(o.Threshold), "a number over 0, at most 1"}
	}
	return nil
}
