package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
)

// Verdicts of a user on an incident. Incidents like it are not worth showing, or always are.
const (
	VerdictFalseAlarm = "false_alarm"
	VerdictMatters    = "matters"
)

// FeedbackMax is the largest number of verdicts that a session keeps.
const FeedbackMax = 64

// Feedback is a user's verdict on an incident of a session, and what the incident is known by.
type Feedback struct {
	Incident int64          `json:"incident"` // its number
	Verdict  string         `json:"verdict"`
	Like     incidents.Like `json:"like"`
	Sample   string         `json:"sample"` // beginning of its first line
}

// verdictOn is the newest verdict on incidents like one; "" if there is none.
func (h *head) verdictOn(i *Incident) string {
	for n := len(h.Feedback) - 1; n >= 0; n-- {
		if h.Feedback[n].Like.Matches(i) {
			return h.Feedback[n].Verdict
		}
	}
	return ""
}

// withFeedback is a head's list with a request's verdicts in it, of which those are nil that are taken
// back. The incidents are those that the session remembers. The list given is not touched.
func withFeedback(
	have []Feedback, verdicts map[int64]*string, known []Incident,
) ([]Feedback, error) {
	list := slices.DeleteFunc(slices.Clone(have), func(f Feedback) bool {
		_, ok := verdicts[f.Incident]
		return ok
	})
	for number, verdict := range verdicts {
		if verdict == nil {
			continue
		}
		n := slices.IndexFunc(known, func(i Incident) bool { return i.Number == number })
		if n < 0 {
			return nil, &FieldError{"feedback", strconv.FormatInt(number, 10),
				fmt.Sprintf("one of the last %d incidents of the session", incidents.Kept)}
		}
		if *verdict != VerdictFalseAlarm && *verdict != VerdictMatters {
			return nil, &FieldError{"feedback", strconv.Quote(*verdict),
				VerdictFalseAlarm + " or " + VerdictMatters}
		}
		list = append(list, Feedback{
			Incident: number, Verdict: *verdict, Like: known[n].Like(), Sample: known[n].Samples[0],
		})
	}
	slices.SortFunc(list, func(a, b Feedback) int { return int(a.Incident - b.Incident) })
	if len(list) > FeedbackMax {
		return nil, &FieldError{"feedback", strconv.Itoa(len(list)) + " verdicts",
			fmt.Sprintf("at most %d; take some back", FeedbackMax)}
	}
	return list, nil
}

// incidentsLocked are the incidents that a session remembers. Its state is made if it is not in
// memory.
func (s *session) incidentsLocked(ctx context.Context) ([]Incident, error) {
	if err := s.warmLocked(ctx, 0, time.Now()); err != nil {
		return nil, err
	}
	return s.stream.Incidents(), nil
}
