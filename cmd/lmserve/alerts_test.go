package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/alert"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type hook struct {
	*httptest.Server
	mu     sync.Mutex
	down   bool
	tries  int
	alerts []alert.Alert
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tries++; h.down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		var a alert.Alert
		if json.NewDecoder(r.Body).Decode(&a) == nil {
			h.alerts = append(h.alerts, a)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) turn(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

func (h *hook) tried() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries > 0
}

func (h *hook) has(t *testing.T, n int) (all []alert.Alert, short string) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.alerts) >= n
	}, time.Minute, 5*time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.alerts {
		if a.Incident != nil {
			short += fmt.Sprintf("%s %d, ", a.Status, a.Incident.Number)
		}
	}
	return h.alerts, short
}

func appendTo(t *testing.T, file, text string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func usualLines(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "GET /%d 200\n", (from+i)%7)
	}
	return b.String()
}

// After a restart, watch delivers an alert that the receiver refused before. An open incident
// causes no second alert.
func TestWatchAlertsOverRestarts(t *testing.T) {
	h, dir := newHook(t), t.TempDir()
	log := filepath.Join(dir, "app.log")
	flags := []string{"--session", "app", "--data-dir", filepath.Join(dir, "data"), "--from-start",
		"--threshold", "1/100", "--alerts", h.URL, log}
	appendTo(t, log, usualLines(0, 300)+"PANIC of shard a\n")
	h.turn(true)
	w := startWatch(t, nil, flags...)
	require.Eventually(t, h.tried, time.Minute, 5*time.Millisecond, "%s", &w.err)
	w.stop()
	require.Equal(t, 1, strings.Count(w.err.String(), "alerts: "), "%s", &w.err)

	h.turn(false)
	w = startWatch(t, nil, flags...)
	all, _ := h.has(t, 1)
	require.Equal(t, "app", all[0].Session.Name)
	require.Equal(t, log, all[0].Source)
	require.Equal(t, "PANIC of shard a", all[0].Line.Text)
	require.Equal(t, []string{"GET /3 200", "GET /4 200", "GET /5 200"}, all[0].Line.Before)
	w.stop()

	w = startWatch(t, nil, flags...)
	appendTo(t, log, "PANIC of shard a\n"+usualLines(1, 250))
	all, short := h.has(t, 2)
	require.Equal(t, "firing 1, resolved 1, ", short)
	require.EqualValues(t, 2, all[1].Incident.Lines)
	w.stop()
}

func TestWatchAlertsOfSilence(t *testing.T) {
	h := newHook(t)
	report := newLineReport(io.Discard, io.Discard, false)
	report.incidents = &incidentReport{}
	cl, err := client.New("http://127.0.0.1:1")
	require.NoError(t, err)
	w := &watch.Watcher{Client: cl, Line: report.line, Note: func(string) {}}
	k := &watching{alerts: alertFlags{receivers: []string{h.URL}}}
	a, end, err := k.startAlerts(w, report)
	require.NoError(t, err)
	a.begin("app.log", client.Session{ID: "s"})
	_, err = w.Line(watch.Found{Source: "app.log"})
	require.NoError(t, err)
	report.silentAfter("app.log", client.IncidentList{SilentSeconds: new(30.)})
	report.tellSilences(time.Now().Add(time.Minute))
	all, _ := h.has(t, 1)
	require.Equal(t, alert.KindSilence, all[0].Kind)
	for range 2 {
		_, err = w.Line(watch.Found{Source: "app.log"})
		require.NoError(t, err)
	}
	end()
	all, _ = h.has(t, 2)
	require.Len(t, all, 2)
	require.Equal(t, alert.Resolved, all[1].Status)
}

// A log file that was removed has ended: watch does not report the log as silent.
func TestLogThatEndsIsNotSilent(t *testing.T) {
	var out strings.Builder
	report := newLineReport(&out, &out, false)
	report.incidents = &incidentReport{}
	report.heardLocked("app.log")
	asked := report.silentSince(time.Now().Add(time.Second))
	report.forgetSilence("app.log")
	for _, source := range asked { // the session's answers arrive after the end of the log
		report.silentAfter(source, client.IncidentList{SilentSeconds: new(30.)})
	}
	report.tellSilences(time.Now().Add(time.Hour))
	require.Empty(t, out.String())
}

func TestWatchAlertsOfLines(t *testing.T) {
	h := newHook(t)
	_, stderr, code := lmserve(usualLines(0, 300)+"PANIC of shard a\n",
		"watch", "--lines", "--alerts", h.URL, "--alerts", "exec:false", "-")
	require.Zero(t, code, stderr)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Len(t, h.alerts, 1)
	require.Equal(t, alert.KindLine, h.alerts[0].Kind)
	require.Contains(t, stderr, "alerts: exec: the command failed")
	require.Contains(t, stderr, "alerts: 1 alerts were not delivered and are lost")
}

func TestAlertsRefuseWhatCannotBe(t *testing.T) {
	for flags, want := range map[string]string{
		"watch --alerts nowhere -":             "--alerts: found an invalid receiver",
		"watch --alerts http://x/ --top 3 -":   "--alerts and --top 3",
		"serve --alerts ftp://x/ --model none": "",
		"serve --data-dir none --alerts exec:": "--alerts: \"exec:\"",
	} {
		_, stderr, code := lmserve("", strings.Fields(flags)...)
		if want != "" {
			require.Equal(t, exitUsage, code, stderr)
			require.Contains(t, stderr, want)
		}
	}
}

// Requests succeed while the receiver of alerts is unreachable. After a restart of the server, the
// receiver gets all alerts.
func TestServeAlertsOfAllSessions(t *testing.T) {
	h, dir := newHook(t), t.TempDir()
	flags := []string{"--model", randomModel(t), "--data-dir", dir, "--alerts", h.URL,
		"--alert-threshold", "1/100"}
	h.turn(true)
	url, stop := serving(t, flags...)
	status, made := send(t, http.MethodPut, url+"/v1/sessions/web", "",
		`{"settings":{"method":"counts","companion":false}}`)
	require.Equal(t, http.StatusCreated, status, "%v", made)
	score := func(query, text string) {
		body, err := json.Marshal(map[string]string{"text": text})
		require.NoError(t, err)
		to := url + "/v1/sessions/web/score" + query
		status, answer := send(t, http.MethodPost, to, "", string(body))
		require.Equal(t, http.StatusOK, status, "%v", answer)
	}
	score("?unit=line", usualLines(0, 200))
	score("", "PANIC of shard a\n"+usualLines(200, 5))
	require.Eventually(t, h.tried, time.Minute, 5*time.Millisecond)
	counted := regexp.MustCompile(`(?m)^lmserve_(incidents|alerts).* [1-9]\d*$`)
	require.Eventually(t, func() bool {
		answer, err := http.Get(url + "/metrics")
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		about := strings.Join(counted.FindAllString(string(text), -1), "\n")
		opened := `lmserve_incidents_total{event="opened",method="counts"} `
		return strings.Contains(about, opened) &&
			strings.Contains(about, `lmserve_incidents_open `) &&
			strings.Contains(about, `lmserve_alerts_waiting{receiver="webhook"} `) &&
			strings.Contains(about, `lmserve_alerts_total{outcome="failed",receiver="webhook"} `)
	}, time.Minute, 5*time.Millisecond)
	stop()

	h.turn(false)
	url, stop = serving(t, flags...)
	find := func(status alert.Status) (a alert.Alert) {
		require.Eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			n := slices.IndexFunc(h.alerts, func(a alert.Alert) bool {
				return a.Status == status && a.Incident.Samples[0] == "PANIC of shard a"
			})
			if n >= 0 {
				a = h.alerts[n]
			}
			return n >= 0
		}, time.Minute, 5*time.Millisecond)
		return a
	}
	opened := find(alert.Firing)
	require.Equal(t, made["id"], opened.Session.ID)
	require.Equal(t, "PANIC of shard a", opened.Line.Text)
	score("", usualLines(205, 250))
	require.Equal(t, opened.IncidentID, find(alert.Resolved).IncidentID)
	stop()
	seen := map[string]bool{}
	for _, a := range h.alerts {
		require.False(t, seen[a.ID], "each once: %+v", a)
		seen[a.ID] = true
	}
}
