package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmserve/lmserve/internal/serving/session"
)

type watched struct {
	incidents *prometheus.CounterVec
	openNow   prometheus.Gauge
	alerts    *prometheus.CounterVec
	waiting   *prometheus.GaugeVec

	open *openIncidents
}

// openIncidents counts the open incidents of each session. A session without open incidents has no
// entry.
type openIncidents struct {
	mu sync.Mutex
	of map[string]int
}

func newWatched(mk maker) watched {
	w := watched{
		incidents: mk.counters("incidents_total",
			"Number of incidents opened and closed, by the method of their session.",
			"method", "event"),
		openNow: mk.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "incidents_open",
			Help: "Number of open incidents in the sessions used since the server's start.",
		}),
		alerts: mk.counters("alerts_total",
			"Number of alerts sent, refused by the receiver or dropped from a full "+
				"queue, and of failed attempts, which are retried.",
			"receiver", "outcome"),
		waiting: mk.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "alerts_waiting",
			Help: "Number of alerts that wait for delivery; receiver is webhook, alertmanager, " +
				"otlp or exec.",
		}, []string{"receiver"}),
		open: &openIncidents{of: map[string]int{}},
	}
	return w
}

// Incident implements session.Observer.
func (w *watched) Incident(of session.SessionRef, _ *session.Line, i *session.IncidentReport) {
	switch {
	case i.Closed:
		w.incidents.WithLabelValues(of.Method, "closed").Inc()
		w.add(of.ID, -1)
	case i.Lines == 1:
		w.incidents.WithLabelValues(of.Method, "opened").Inc()
		w.add(of.ID, 1)
	}
}

// Incidents implements session.Observer.
func (w *watched) Incidents(of session.SessionRef, all []session.IncidentReport) {
	open := 0
	for i := range all {
		if !all[i].Closed {
			open++
		}
	}
	w.set(of.ID, open)
}

// Left implements session.Observer.
func (w *watched) Left(session string) { w.set(session, 0) }

func (w *watched) add(session string, more int) {
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	w.setLocked(session, w.open.of[session]+more)
}

func (w *watched) set(session string, open int) {
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	w.setLocked(session, open)
}

func (w *watched) setLocked(session string, open int) {
	open = max(0, open)
	w.openNow.Add(float64(open - w.open.of[session]))
	if w.open.of[session] = open; open == 0 {
		delete(w.open.of, session)
	}
}

// Alert counts an alert for a kind of receiver as sent, refused, dropped or failed.
func (w *watched) Alert(receiver, outcome string) {
	w.alerts.WithLabelValues(receiver, outcome).Inc()
}

// AlertsWaiting changes the number of waiting alerts for a kind of receiver by the parameter
// `more`, which may be negative. If more is 0, AlertsWaiting creates the receiver's metrics.
func (w *watched) AlertsWaiting(receiver string, more int) {
	if more == 0 {
		for _, outcome := range []string{"sent", "refused", "dropped", "failed"} {
			w.alerts.WithLabelValues(receiver, outcome)
		}
	}
	w.waiting.WithLabelValues(receiver).Add(float64(more))
}
