package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// These are a user's verdicts on an incident: not worth showing, or always worth showing. A verdict
// also applies to similar incidents.
const (
	VerdictFalseAlarm = "false_alarm"
	VerdictMatters    = "matters"
)

// FeedbackMax is the maximum number of verdicts in a session.
const FeedbackMax = 64

// Feedback is a user's verdict on an incident, with the data to recognize similar incidents.
type Feedback struct {
	Incident int64          `json:"incident"`
	Verdict  string         `json:"verdict"`
	Like     incidents.Like `json:"like"`
	Sample   string         `json:"sample"` // beginning of the incident's first line
	Offset   int64          `json:"offset"` // offset of the incident's first line
}

// wrong reports whether a verdict that was read from a store is invalid.
func (f Feedback) wrong() bool {
	return f.Incident < 1 || f.Offset < 0 || len(f.Sample) > incidents.SampleBytes ||
		f.Verdict != VerdictFalseAlarm && f.Verdict != VerdictMatters
}

// verdictOn returns the verdict on an incident. If there is none, it returns the newest verdict on
// a similar incident, or "".
func (h *head) verdictOn(i *Incident) string {
	for _, f := range h.Feedback {
		if f.Incident == i.Number {
			return f.Verdict
		}
	}
	for n := len(h.Feedback) - 1; n >= 0; n-- {
		if h.Feedback[n].Like.Matches(i) {
			return h.Feedback[n].Verdict
		}
	}
	return ""
}

// FeedbackRequest sets the verdict on an incident. An empty verdict removes the existing verdict.
type FeedbackRequest struct {
	Incident int64
	Verdict  string
}

// withFeedback returns a copy of the list have with the requested verdict. The requested verdict
// replaces the earlier verdict on the incident. An empty verdict only removes the earlier verdict.
// known lists the incidents that the session still has.
func withFeedback(have []Feedback, r FeedbackRequest, known []Incident) ([]Feedback, error) {
	list := slices.DeleteFunc(slices.Clone(have),
		func(f Feedback) bool { return f.Incident == r.Incident })
	switch r.Verdict {
	case "":
		return list, nil
	case VerdictFalseAlarm, VerdictMatters:
	default:
		return nil, &FieldError{"verdict", strconv.Quote(r.Verdict),
			VerdictFalseAlarm + " or " + VerdictMatters}
	}
	n := slices.IndexFunc(known, func(i Incident) bool { return i.Number == r.Incident })
	if n < 0 {
		return nil, &FieldError{"incident", strconv.FormatInt(r.Incident, 10),
			fmt.Sprintf("one of the last %d incidents of the session", incidents.Kept)}
	}
	if len(list) == FeedbackMax {
		return nil, &FieldError{"incident", fmt.Sprintf("an incident beyond %d with "+
			"verdicts", FeedbackMax+1),
			fmt.Sprintf("at most %d; remove a verdict first", FeedbackMax)}
	}
	of := &known[n]
	return append(list, Feedback{r.Incident, r.Verdict, of.Like(), of.Samples[0], of.Offset}), nil
}

// IncidentList contains the latest incidents of a session and the verdicts on them.
type IncidentList struct {
	Incidents []IncidentReport // newest incident first
	Feedback  []Feedback       // oldest verdict first
	// SilentAfter is the length of the shortest unusual gap between the timestamps of two lines. It
	// is 0 if the lines do not allow an estimate.
	SilentAfter time.Duration
}

// Incidents returns the incidents of a session. If the session's state is not in memory, it is
// recovered first. The error is ErrOverloaded if too many requests wait.
func (mg *Manager) Incidents(ctx context.Context, who Caller, id string) (IncidentList, error) {
	return mg.incidents(ctx, who, id, func(*session) error { return nil })
}

// GiveFeedback sets the verdict on an incident, and returns the incidents as Incidents does. It
// does not count as a use of the session. The error may also be a *FieldError, and those of a write
// to the session.
func (mg *Manager) GiveFeedback(
	ctx context.Context, who Caller, id string, r FeedbackRequest,
) (IncidentList, error) {
	return mg.incidents(ctx, who, id, func(s *session) error {
		feedback, err := withFeedback(s.Feedback, r, s.stream.Incidents())
		if err != nil {
			return err
		}
		next := s.head
		next.Feedback = feedback
		if err := cmp.Or(mg.index.checkHead(s, &next), s.alive()); err != nil {
			return err
		}
		if err := s.setHeadLocked(ctx, &next); err != nil {
			return err
		}
		s.tellIncidentsLocked() // the verdict may begin or end an alert
		return nil
	})
}

// incidents recovers a session's state if necessary, calls changeLocked, and returns the incidents.
func (mg *Manager) incidents(
	ctx context.Context, who Caller, id string, changeLocked func(*session) error,
) (IncidentList, error) {
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return IncidentList{}, err
	}
	defer done()
	if err := mg.life.Enter(); err != nil {
		return IncidentList{}, err
	}
	defer mg.life.Leave()
	if err := mg.engine.openCurrent(ctx, s, new(bool), 0); err != nil {
		return IncidentList{}, err
	}
	defer s.unlock()
	if err := changeLocked(s); err != nil {
		return IncidentList{}, err
	}
	l := IncidentList{Feedback: s.Feedback}
	l.SilentAfter, _ = s.stream.SilentAfter()
	for _, i := range s.stream.Incidents() {
		l.Incidents = append(l.Incidents, s.report(&i))
	}
	return l, nil
}

func (h *head) report(i *Incident) IncidentReport { return IncidentReport{*i, h.verdictOn(i)} }
