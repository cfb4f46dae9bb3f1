package session

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// watching returns the head for text from an offset on that is fed with these options. It has the
// options' rules for lines.
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

// checkTrouble refuses a list of trouble words that differs from the one the session's lines began
// with.
func (h *head) checkTrouble(o ScoreOptions) error {
	if h.LinesFrom == nil || o.TroubleWords == "" || o.TroubleWords == h.TroubleWords {
		return nil
	}
	want := "none"
	if h.TroubleWords != "" {
		want = fmt.Sprintf("%.80q", h.TroubleWords)
	}
	return &FieldError{"trouble_words", fmt.Sprintf("%.80q", o.TroubleWords),
		want + ", the session's list; use another session for another list"}
}

// isTroubleList reports whether a list is empty or in the form that lines.TroubleWords returns.
func isTroubleList(list string) bool {
	same, err := lines.TroubleWords(list)
	return list == "" || err == nil && same == list
}

// TroubleWords parses a list of trouble words for ScoreOptions.
func TroubleWords(text string) (list string, err error) { return lines.TroubleWords(text) }

// recordRule says how a session's lines form records. It is immutable.
type recordRule struct {
	From  int64  `json:"from"`            // the offset at which the rule begins to hold
	Start string `json:"start,omitempty"` // the pattern that begins a record; "" for the default
}

// CheckRecordStart returns an error if pattern cannot be a record start. The error says what was
// expected.
func CheckRecordStart(pattern string) error { return lines.CheckPattern(pattern) }

// watch starts lines and records of a stream, as the head says.
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

// checkLearn refuses to learn by lines where that is impossible.
func checkLearn(s *session, o ScoreOptions) error {
	switch {
	case o.Learn != LearnUnflagged:
		return nil
	case !o.Lines:
		return &FieldError{"learn", LearnUnflagged, "another value without lines"}
	case !stream.LearnsByLine(s.Settings.Method):
		return &FieldError{"learn", LearnUnflagged,
			"another value with the method " + s.Settings.Method +
				", which learns from every line"}
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return &FieldError{"threshold", fmt.Sprint(o.Threshold), "a number above 0, at most 1"}
	}
	return nil
}
