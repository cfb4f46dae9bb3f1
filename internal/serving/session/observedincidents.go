package session

import (
	"bytes"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// SessionRef is what an Observer knows a session by. The labels are never changed.
type SessionRef struct {
	ID, Name, Method string
	Labels           map[string]string
}

// ref is what an observer knows the session by.
func (h *head) ref() SessionRef {
	return SessionRef{ID: h.ID, Name: h.Name, Method: h.Settings.Method, Labels: h.Labels}
}

// inherited reports whether an incident is of text that the session has from another session, which
// reports it.
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

// tellIncidentsLocked tells the observer of the incidents that the session remembers.
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
