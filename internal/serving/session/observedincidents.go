package session

import (
	"bytes"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// SessionRef identifies a session to an Observer. Its labels are immutable.
type SessionRef struct {
	ID, Name, Method string
	Labels           map[string]string
}

// ref returns the SessionRef of the session.
func (h *head) ref() SessionRef {
	return SessionRef{ID: h.ID, Name: h.Name, Method: h.Settings.Method, Labels: h.Labels}
}

// inherited reports whether an incident is in text copied from another session, which reports it.
func (h *head) inherited(i *Incident) bool {
	return h.ShadowOf != "" || h.Parent != nil && i.Offset < h.Parent.Offset
}

// observedLines returns take, extended so that the observer gets the incidents of each line.
func (f *feeder) observedLines(take func(*lines.Line)) func(*lines.Line) {
	if f.given != nil || f.s.LinesFrom == nil {
		return take
	}
	return func(l *lines.Line) {
		for n := range l.Incidents {
			i := &l.Incidents[n]
			if l.Lines > 0 || !i.News(l.P) || f.s.inherited(i) {
				continue
			}
			line, report := f.lineReport(l, true), f.s.report(i)
			line.Text, line.Why = bytes.Clone(l.Text), l.Why()
			f.engine.observer.Incident(f.s.ref(), &line, &report)
		}
		if take != nil {
			take(l)
		}
	}
}

// tellIncidentsLocked reports the incidents that the session remembers to the observer.
func (s *session) tellIncidentsLocked() {
	var all []IncidentReport
	for _, i := range s.stream.Incidents() {
		if !s.inherited(&i) {
			all = append(all, s.report(&i))
		}
	}
	if len(all) > 0 {
		s.host.observer.Incidents(s.ref(), all)
	}
}
