package main

import (
	"sync"
	"time"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/alert"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type watchAlerts struct {
	*alert.Notifier
	threshold float64
	incidents bool // true if alerts are about incidents instead of lines

	mu       sync.Mutex
	sessions map[string]alert.Session
	silent   map[string]bool
}

// startAlerts starts sending alerts to the receivers that the flags name. The caller must call the
// function end, which sends the last alerts.
func (k *watching) startAlerts(
	w *watch.Watcher, report *lineReport,
) (a *watchAlerts, end func(), err error) {
	if !k.alerts.given() {
		return nil, func() {}, nil
	}
	a = &watchAlerts{
		threshold: report.threshold, incidents: report.incidents != nil,
		sessions: map[string]alert.Session{}, silent: map[string]bool{},
	}
	report.silent = a.fellSilent
	name := ""
	if k.session != "" && k.learn != string(client.LearnFalse) {
		name = "watch-" + k.session
	}
	a.Notifier, err = k.alerts.start(&k.data, name, alert.Options{
		Threshold: report.threshold, Text: w.Client.Text,
		Note: func(err error) { w.Note(err.Error()) },
	})
	if err != nil {
		return nil, nil, err
	}
	line, before := w.Line, w.Before
	w.Line = func(f watch.Found) (bool, error) {
		shown, err := line(f)
		a.line(f)
		return shown, err
	}
	if before != nil {
		w.Before = func(source string, list client.IncidentList) {
			before(source, list)
			a.Incidents(a.session(source), source, list.Incidents)
			a.Kept()
		}
	}
	return a, func() {
		if err := lostAlerts(a.Close(alertsPatience)); err != nil {
			w.Note(err.Error())
		}
	}, nil
}

// begin records the session of a source. On a nil watchAlerts, begin does nothing.
func (a *watchAlerts) begin(source string, s client.Session) {
	if a == nil {
		return
	}
	of := alert.Session{ID: s.ID}
	if s.Name != nil {
		of.Name = *s.Name
	}
	if s.Labels != nil {
		of.Labels = *s.Labels
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[source] = of
}

func (a *watchAlerts) session(source string) alert.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[source]
}

// line sends an alert for each incident of a line. If alerts are not about incidents, it sends an
// alert for each line that is strange enough. Alerts are written to their file before watch records
// the line as reported.
func (a *watchAlerts) line(f watch.Found) {
	of := a.session(f.Source)
	a.heard(f.Source)
	switch {
	case a.incidents:
		for i := range f.Line.Incidents {
			news := &f.Line.Incidents[i]
			a.Incident(of, f.Source, news, lineOfIncident(&f.Line, news))
		}
		if len(f.Line.Incidents) == 0 {
			return
		}
	case watch.StandsOut(&f.Line, a.threshold):
		a.Line(of, f.Source, &f.Line)
	default:
		return
	}
	a.Kept()
}

func (a *watchAlerts) fellSilent(source string, since time.Time, after time.Duration) {
	a.Silence(a.session(source), source, since, after)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent[source] = true
}

// heard ends the silence of a source, if the source was silent. On a nil watchAlerts, heard does
// nothing.
func (a *watchAlerts) heard(source string) {
	if a != nil && a.wasSilent(source) {
		a.Heard(a.session(source), source)
	}
}

// wasSilent reports whether a source was silent, and records that the silence has ended.
func (a *watchAlerts) wasSilent(source string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.silent[source]
	delete(a.silent, source)
	return was
}

// lineOfIncident returns the line if it is the last line of the incident, else nil.
func lineOfIncident(l *client.LineEvent, i *client.Incident) *alert.Line {
	if i.Last != l.Number {
		return nil
	}
	return alert.NewLine(l)
}

// checkAlerts returns an error if alerts are combined with --top, because --top prints lines only
// at the end of the input.
func (k *watching) checkAlerts() error {
	if k.alerts.given() && k.choice.top > 0 {
		return usagef("--alerts and --top %d are both given, expected one of them: --top prints "+
			"only at the end", k.choice.top)
	}
	return nil
}
