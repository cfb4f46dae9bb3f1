// Package alert tells receivers outside of a server, or of a watch, of incidents as they open and
// as they end: a web service, Alertmanager, a collector of OTLP logs, or a command.
//
// A Notifier knows which incidents it has told, and decides. Each receiver has its queue
// (queue.go): who feeds a session never waits for a receiver. What is open and what waits is kept
// in a file (store.go), so that an alert is delivered at least once, also after a crash; repeats
// have the same ID.
package alert

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

// Alert is a message to a receiver. Its JSON is what a webhook and a command get.
type Alert struct {
	ID         string        `json:"id"`          // the same in each repeat of the alert
	IncidentID string        `json:"incident_id"` // the same when it opens and ends
	Kind       Kind          `json:"kind"`
	Status     Status        `json:"status"`
	Source     string        `json:"source,omitempty"` // the name of a watched log
	Session    Session       `json:"session"`
	Starts     time.Time     `json:"starts_at"`
	Ends       *time.Time    `json:"ends_at,omitempty"` // nil: it is open
	Rank       int64         `json:"rank"`              // of its strangest line; 1: a change alone
	Summary    string        `json:"summary"`
	Incident   *api.Incident `json:"incident,omitempty"` // nil: the alert is about none
	Line       *Line         `json:"line,omitempty"`     // of the alert; nil: not known
}

// Kind says what an alert is about.
type Kind string

// The kinds of alerts.
const (
	KindIncident Kind = "incident"
	KindLine     Kind = "line"    // a strange line, of a watch that groups none into incidents
	KindSilence  Kind = "silence" // a watched log has no new lines
)

// Status says whether the incident of an alert is open.
type Status string

// The states, named as Alertmanager and Prometheus name them.
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
	Offset int64        `json:"offset"` // in the session's text
	Rank   int64        `json:"rank"`
	Text   string       `json:"text"`
	Span   api.LineSpan `json:"span"`             // what is strangest, as bytes of the text
	Before []string     `json:"before,omitempty"` // the lines in front of it, if known
}

// NewLine makes a Line of an event.
func NewLine(l *api.LineEvent) *Line {
	line := &Line{Number: l.Number, Offset: l.Offset, Rank: l.Rank, Span: l.Span}
	if l.Text != nil {
		line.Text = *l.Text
	}
	return line
}

// ids is the namespace of the ids of incidents and alerts.
var ids = uuid.MustParse("5f0c7f0e-6a3c-4d0c-9a53-0b6f7c3d9d2e")

// incidentID identifies an incident. Numbers repeat where a session does not learn, so the first
// line takes part.
func incidentID(session string, i *api.Incident) string {
	sample := ""
	if len(i.Samples) > 0 {
		sample = i.Samples[0]
	}
	return idOf(session, i.Number, i.Offset, sample)
}

func idOf(parts ...any) string {
	return uuid.NewSHA1(ids, []byte(fmt.Sprintf("%q", parts))).String()
}

// resolved is the alert that ends another.
func (a Alert) resolved(now time.Time) Alert {
	a.Status, a.Ends, a.Line = Resolved, &now, nil
	a.ID = idOf(a.ID, Resolved)
	return a
}

// ofIncident is the alert of an incident that is open.
func ofIncident(of Session, source string, i *api.Incident, l *Line, now time.Time) Alert {
	a := Alert{
		IncidentID: incidentID(of.ID, i), Kind: KindIncident, Status: Firing, Source: source,
		Session: of, Starts: now, Line: l,
	}
	a.ID = idOf(a.IncidentID, Firing)
	a.describe(i)
	return a
}

// describe takes over what is known of the incident by now.
func (a *Alert) describe(i *api.Incident) {
	a.Incident, a.Rank, a.Summary = i, i.Rank, watch.Reason(i.Why)
	if len(i.Changes) > 0 {
		a.Summary = string(i.Changes[0].Kind) + ": " + i.Changes[0].Evidence
	}
}

// ofSilence is the alert of a log without a line since a time, which is unusual after a while.
func ofSilence(of Session, source string, since time.Time, unusual time.Duration) Alert {
	id := idOf(of.ID, source, since.UnixNano())
	return Alert{
		ID: idOf(id, Firing), IncidentID: id, Kind: KindSilence, Status: Firing, Source: source,
		Session: of, Starts: since.UTC(), Rank: 1,
		Summary: fmt.Sprintf("no line for %s, which is unusual", unusual.Round(time.Second)),
	}
}

// ofLine is the alert of a strange line. No second alert ends it.
func ofLine(of Session, source string, l *api.LineEvent, now time.Time) Alert {
	id := idOf(of.ID, l.Number, l.Offset)
	return Alert{
		ID: id, IncidentID: id, Kind: KindLine, Status: Firing, Source: source, Session: of,
		Starts: now, Rank: l.Rank, Summary: watch.Reason(l.Why), Line: NewLine(l),
	}
}
