package session

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// watching returns a copy of the head with the rules for lines from a request. New rules apply from
// the given offset on.
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

// checkTrouble returns an error if the request and the session have different lists of trouble
// words. The session's first request for lines fixes the list.
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

// isTroubleList reports whether a list is empty or has the form that lines.TroubleWords returns.
func isTroubleList(list string) bool {
	same, err := lines.TroubleWords(list)
	return list == "" || err == nil && same == list
}

// TroubleWords parses a list of words that indicate trouble, for ScoreOptions.
func TroubleWords(text string) (list string, err error) { return lines.TroubleWords(text) }

// recordRule defines how a session's lines are grouped into records. It is immutable.
type recordRule struct {
	From  int64  `json:"from"`
	Start string `json:"start,omitempty"` // pattern of a record's first line; "" means the default
}

// CheckRecordStart returns an error if a pattern for the beginning of records is invalid.
func CheckRecordStart(pattern string) error { return lines.CheckPattern(pattern) }

// watch makes a stream report lines and records by the rules in the head.
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

// checkLearn checks that the session can learn line by line, if the request asks for
// LearnUnflagged.
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
