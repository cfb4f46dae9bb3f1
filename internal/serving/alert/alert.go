// Package alert sends a message to receivers when an incident opens and when it ends. A receiver is
// a web service, Alertmanager, a collector of OTLP logs, or a command.
//
// A Notifier decides which incidents to send, and remembers the sent incidents. Each receiver has a
// queue (queue.go), so requests that feed a session never wait for a receiver. A file (store.go)
// keeps the open incidents and the waiting alerts. So an alert is delivered at least once, also
// after a crash. Exceptions are refused alerts, and alerts dropped from a full queue. Repeats of an
// alert have the same ID.
package alert

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

// Alert is a message to a receiver. Webhooks and commands get it as JSON.
type Alert struct {
	ID string `json:"id"` // equal in all repeats of the alert
	// equal in the alerts for the opening and the end of an incident
	IncidentID string     `json:"incident_id"`
	Kind       Kind       `json:"kind"`
	Status     Status     `json:"status"`
	Source     string     `json:"source,omitempty"` // the name of a watched log
	Session    Session    `json:"session"`
	Starts     time.Time  `json:"starts_at"`
	Ends       *time.Time `json:"ends_at,omitempty"` // nil while the incident is open
	// rank of the incident's strangest line; 1 if no line is strange
	Rank     int64         `json:"rank"`
	Summary  string        `json:"summary"`
	Incident *api.Incident `json:"incident,omitempty"` // nil if the alert is about no incident
	// line at which the alert was made; nil if not known
	Line *Line `json:"line,omitempty"`
}

// Kind is the subject of an alert.
type Kind string

// An alert is about an incident, a strange line or a silence.
const (
	KindIncident Kind = "incident"
	// a strange line, if the watch does not group lines into incidents
	KindLine    Kind = "line"
	KindSilence Kind = "silence" // a watched log has no new lines
)

// Status says whether the incident of an alert is open.
type Status string

// Firing and Resolved have the names that Alertmanager and Prometheus use.
const (
	Firing   Status = "firing"
	Resolved Status = "resolved"
)

// Session is the session of an alert.
type Session struct {
	ID     string            `json:"id"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Line is the line at which an alert was made.
type Line struct {
	Number int64        `json:"number"`
	Offset int64        `json:"offset"` // byte offset in the session's text
	Rank   int64        `json:"rank"`
	Text   string       `json:"text"`
	Span   api.LineSpan `json:"span"`             // byte range of the strangest part
	Before []string     `json:"before,omitempty"` // the lines before this line, if known
}

// NewLine makes a Line from an event.
func NewLine(l *api.LineEvent) *Line {
	line := &Line{Number: l.Number, Offset: l.Offset, Rank: l.Rank, Span: l.Span}
	if l.Text != nil {
		line.Text = *l.Text
	}
	return line
}

// ids is the UUID namespace of the ids of incidents and alerts.
var ids = uuid.MustParse("5f0c7f0e-6a3c-4d0c-9a53-0b6f7c3d9d2e")

// incidentID returns an id for an incident. A session that does not learn may use an incident's
// number again, so the id also depends on the first line.
func incidentID(session string, i *api.Incident) string {
	return idOf(session, i.Number, i.Offset, firstLine(i))
}

// formerID returns the id that earlier versions gave to an incident. These versions wrote numbers
// as characters, so different incidents could have the same id.
func formerID(session string, i *api.Incident) string {
	return hashOf([]any{session, i.Number, i.Offset, firstLine(i)})
}

func firstLine(i *api.Incident) string {
	if len(i.Samples) == 0 {
		return ""
	}
	return i.Samples[0]
}

func idOf(parts ...any) string {
	texts := make([]any, len(parts))
	for i, part := range parts {
		texts[i] = fmt.Sprint(part) // %q would write a number as a character
	}
	return hashOf(texts)
}

func hashOf(parts []any) string {
	return uuid.NewSHA1(ids, []byte(fmt.Sprintf("%q", parts))).String()
}

func (a Alert) resolved(now time.Time) Alert {
	a.Status, a.Ends, a.Line = Resolved, &now, nil
	a.ID = idOf(a.ID, Resolved)
	return a
}

func ofIncident(
	of Session, source, id string, i *api.Incident, l *Line, now time.Time,
) Alert {
	a := Alert{
		IncidentID: id, Kind: KindIncident, Status: Firing, Source: source,
		Session: of, Starts: now, Line: l,
	}
	a.ID = idOf(a.IncidentID, Firing)
	a.describe(i)
	return a
}

func (a *Alert) describe(i *api.Incident) {
	a.Incident, a.Rank, a.Summary = i, i.Rank, watch.Reason(i.Why)
	if len(i.Changes) > 0 {
		a.Summary = string(i.Changes[0].Kind) + ": " + i.Changes[0].Evidence
	}
}

// ofSilence returns the alert of a log that has had no line since the given time. The parameter
// unusual is the shortest gap between lines that is unusual for this log.
func ofSilence(of Session, source string, since time.Time, unusual time.Duration) Alert {
	id := idOf(of.ID, source, since.UnixNano())
	return Alert{
		ID: idOf(id, Firing), IncidentID: id, Kind: KindSilence, Status: Firing, Source: source,
		Session: of, Starts: since.UTC(), Rank: 1,
		Summary: fmt.Sprintf("no line for %s, which is unusual", unusual.Round(time.Second)),
	}
}

// ofLine returns the alert of a strange line. Unlike an incident, a line has no second alert for
// its end.
func ofLine(of Session, source string, l *api.LineEvent, now time.Time) Alert {
	id := idOf(of.ID, l.Number, l.Offset)
	return Alert{
		ID: id, IncidentID: id, Kind: KindLine, Status: Firing, Source: source, Session: of,
		Starts: now, Rank: l.Rank, Summary: watch.Reason(l.Why), Line: NewLine(l),
	}
}
