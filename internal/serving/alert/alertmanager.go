package alert

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// remindEvery is the time between two reminders of an open alert, as in Prometheus.
	remindEvery = time.Minute
	// holds is how long Alertmanager keeps an alert open without a reminder. So four reminders may
	// be lost.
	holds = 5 * time.Minute
)

// alertmanager is the URL for alerts in Alertmanager's API v2.
type alertmanager string

// postable is an alert of Alertmanager's API v2: postableAlert in its openapi.yaml. The labels
// identify the alert.
type postable struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Starts      time.Time         `json:"startsAt"`
	Ends        time.Time         `json:"endsAt"`
}

func (m alertmanager) send(ctx context.Context, alerts []Alert) error {
	all := make([]postable, len(alerts))
	for i := range alerts {
		all[i] = alerts[i].postable(time.Now().UTC())
	}
	body, err := json.Marshal(all)
	if err != nil {
		return backoff.Permanent(err)
	}
	return post(ctx, string(m), "application/json", body, "")
}

// labelName matches the label names that every version of Alertmanager accepts.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (a *Alert) postable(now time.Time) postable {
	p := postable{
		Labels: map[string]string{}, Starts: a.Starts, Ends: now.Add(holds),
		Annotations: map[string]string{
			"summary": a.Summary, "rank": "1/" + strconv.FormatInt(a.Rank, 10),
		},
	}
	if a.Ends != nil {
		p.Ends = *a.Ends
	}
	// After the clock was set back, the alert's start may lie ahead. Alertmanager refuses an alert
	// that ends before it starts.
	for _, at := range []time.Time{now, p.Ends} {
		if at.Before(p.Starts) {
			p.Starts = at
		}
	}
	for name, value := range a.Session.Labels {
		if labelName.MatchString(name) {
			p.Labels[name] = value
		}
	}
	maps.Copy(p.Labels, a.labels())
	maps.DeleteFunc(p.Labels, func(_, value string) bool { return value == "" })
	if text := a.lines(); text != "" {
		p.Annotations["description"] = text
	}
	return p
}

// labels returns the labels that lmserve sets on an alert. They take precedence over a session's
// labels of the same names.
func (a *Alert) labels() map[string]string {
	name := map[Kind]string{
		KindIncident: "LmserveIncident", KindLine: "LmserveStrangeLine",
		KindSilence: "LmserveSilence",
	}[a.Kind]
	return map[string]string{
		"alertname": name, "incident": a.IncidentID, "session": a.Session.ID,
		"session_name": a.Session.Name, "source": a.Source,
	}
}

func (a *Alert) lines() string {
	switch {
	case a.Incident != nil:
		return strings.Join(a.Incident.Samples, "\n")
	case a.Line != nil:
		return a.Line.Text
	}
	return ""
}
