package main

import (
	"context"
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/alert"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/watch"
	"github.com/lmserve/lmserve/server/codec"
)

type serveAlerts struct {
	*alert.Notifier
	sessions atomic.Pointer[session.Manager] // nil until the session manager exists
}

func (t *telemetry) startAlerts(f *serveFlags) (err error) {
	if !f.alerts.given() {
		return nil
	}
	a := &serveAlerts{}
	name := "serve"
	if f.data.network.given() {
		name = "" // there is no data folder, so pending alerts stay in memory
	}
	threshold, err := watch.ParseRate(f.alertThreshold)
	if err != nil {
		return usagef("--alert-threshold is %w", err)
	}
	a.Notifier, err = f.alerts.start(&f.data, name, alert.Options{
		Threshold: threshold, Text: a.text, Count: t.Metrics,
		Note: func(err error) { t.log.Warn("alerts", zap.Error(err)) },
	})
	if err == nil {
		t.alerts = a
	}
	return err
}

var errNotServing = errors.New("the server's sessions are not loaded yet")

func (a *serveAlerts) text(
	ctx context.Context, id string, offset, length int64,
) ([]byte, error) {
	sessions := a.sessions.Load()
	if sessions == nil {
		return nil, errNotServing
	}
	part, err := sessions.Text(ctx, session.Caller{Admin: true}, id, offset, length)
	return part.Text, err
}

func (t *telemetry) follow(sessions *session.Manager) {
	t.Follow(sessions)
	if t.alerts != nil {
		t.alerts.sessions.Store(sessions)
	}
}

func (t *telemetry) closeAlerts() {
	if t.alerts == nil {
		return
	}
	if err := lostAlerts(t.alerts.Close(alertsPatience)); err != nil {
		t.log.Warn("alerts", zap.Error(err))
	}
}

// Incident implements session.Observer.
func (t *telemetry) Incident(of session.SessionRef, l *session.Line, i *session.IncidentReport) {
	t.Metrics.Incident(of, l, i)
	if t.alerts == nil {
		return
	}
	told := codec.EncodeIncident(i)
	line := codec.Encoder{}.Line(*l, false)
	t.alerts.Incident(alertSession(of), "", &told, lineOfIncident(&line, &told))
}

// Incidents implements session.Observer.
func (t *telemetry) Incidents(of session.SessionRef, all []session.IncidentReport) {
	t.Metrics.Incidents(of, all)
	if t.alerts != nil {
		list := codec.EncodeIncidents(session.IncidentList{Incidents: all})
		t.alerts.Incidents(alertSession(of), "", list.Incidents)
	}
}

// Left implements session.Observer.
func (t *telemetry) Left(id string) {
	t.Metrics.Left(id)
	if t.alerts != nil {
		t.alerts.Left(id)
	}
}

func alertSession(of session.SessionRef) alert.Session {
	return alert.Session{ID: of.ID, Name: of.Name, Labels: of.Labels}
}
