package session

import (
	"bytes"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// SessionRef identifies a session in calls of an Observer. Its labels are immutable.
type SessionRef struct {
	ID, Name, Method string
	Labels           map[string]string
}

func (h *head) ref() SessionRef {
	return SessionRef{ID: h.ID, Name: h.Name, Method: h.Settings.Method, Labels: h.Labels}
}

// inherited reports whether an incident is in text that was copied from another session. Only the
// other session reports such an incident.
func (h *head) inherited(i *Incident) bool {
	return h.ShadowOf != "" || h.Parent != nil && i.Offset < h.Parent.Offset
}

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
			f.s.observe(func(o Observer) { o.Incident(f.s.ref(), &line, &report) })
		}
		if take != nil {
			take(l)
		}
	}
}

// tellIncidentsLocked passes the session's current incidents to the observer, except incidents in
// text copied from another session.
func (s *session) tellIncidentsLocked() {
	var all []IncidentReport
	for _, i := range s.stream.Incidents() {
		if !s.inherited(&i) {
			all = append(all, s.report(&i))
		}
	}
	if len(all) > 0 {
		s.observe(func(o Observer) { o.Incidents(s.ref(), all) })
	}
}

// observe passes incidents to the observer, unless the session has ended. After the end of a
// session, the observer gets no incidents that nothing would remove.
func (s *session) observe(tell func(Observer)) {
	s.observing.Lock()
	defer s.observing.Unlock()
	if !s.deleted.Load() {
		tell(s.host.observer)
	}
}

// observeEnd tells the observer that an ended session has no incidents.
func (s *session) observeEnd() {
	s.observing.Lock()
	defer s.observing.Unlock()
	s.host.observer.Incidents(SessionRef{ID: s.ID}, nil)
}
