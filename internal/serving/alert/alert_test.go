package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	logsservice "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/lmserve/lmserve/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox is a receiver over HTTP that answers with a status that the test sets.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	retry  string
	tries  int
	got    []Alert
}

func newInbox(t *testing.T) *inbox {
	b := &inbox{status: http.StatusOK}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tries++
		var a Alert
		err := json.NewDecoder(r.Body).Decode(&a)
		if err != nil || a.ID != r.Header.Get("Idempotency-Key") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if b.status/100 == 2 {
			b.got = append(b.got, a)
		}
		w.Header().Set("Retry-After", b.retry)
		w.WriteHeader(b.status)
	}))
	t.Cleanup(func() {
		b.Close()
		httpClient.CloseIdleConnections()
	})
	return b
}

func (b *inbox) answer(status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = status
}

func (b *inbox) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}

func (b *inbox) alerts(t *testing.T, n int) []Alert {
	t.Helper()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.got) >= n
	}, time.Minute, time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.got, n)
	return b.got
}

type account struct {
	mu      sync.Mutex
	counts  map[string]int
	waiting int
	notes   []string
}

func (c *account) Alert(receiver, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[receiver+" "+outcome]++
}

func (c *account) AlertsWaiting(_ string, more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += more
}

func (c *account) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, err.Error())
}

func (c *account) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[what]
}

func (c *account) reaches(t *testing.T, what string, least int) {
	t.Helper()
	enough := func() bool { return c.count(what) >= least }
	require.Eventually(t, enough, time.Minute, time.Millisecond)
}

func receiver(t *testing.T, what string) *Receiver {
	r, err := ParseReceiver(what)
	require.NoError(t, err)
	r.pause = time.Millisecond
	return r
}

func start(t *testing.T, c *account, file string, receivers ...*Receiver) *Notifier {
	n, err := Start(Options{
		Receivers: receivers, Threshold: 1. / 1000, File: file, Note: c.note, Count: c,
	})
	require.NoError(t, err)
	return n
}

var web = Session{
	ID: "0b6f", Name: "web", Labels: map[string]string{"team": "shop", "no label": "x"},
}

func incident(number int64) *api.Incident {
	return &api.Incident{
		Number: number, State: api.IncidentOpen, First: 40 + number, Last: 40 + number,
		Offset: 1000 * number, Lines: 1, P: 1. / 2000, Rank: 2000,
		Why:     &api.LineWhy{Token: "502", Before: "HTTP", Usual: []string{"200"}},
		Samples: []string{fmt.Sprintf("GET /%d HTTP 502", number)},
	}
}

func closed(i *api.Incident) *api.Incident {
	after := *i
	after.State, after.Lines = api.IncidentClosed, 7
	return &after
}

// judged returns a copy of the incident with a verdict.
func judged(i *api.Incident, v api.Verdict) *api.Incident {
	after := *i
	after.Verdict = &v
	return &after
}

func TestIncidentIsReportedAtItsOpeningAndEnd(t *testing.T) {
	b, c := newInbox(t), &account{}
	n := start(t, c, "", receiver(t, b.URL+"/hook"))
	line := &Line{
		Number: 41, Rank: 2000, Text: "GET /1 HTTP 502", Span: api.LineSpan{From: 12, To: 15},
	}
	n.Incident(web, "app.log", incident(1), line)
	n.Incident(web, "app.log", incident(1), line) // an update of the incident
	usual := incident(2)
	usual.P = 1. / 500
	n.Incident(web, "app.log", usual, nil)
	n.Incident(web, "app.log", closed(incident(1)), nil)
	n.Incident(web, "app.log", closed(usual), nil)
	got := b.alerts(t, 2)
	require.Zero(t, n.Close(time.Minute))
	require.Equal(t, []Status{Firing, Resolved}, []Status{got[0].Status, got[1].Status})
	require.Equal(t, got[0].IncidentID, got[1].IncidentID)
	require.NotEqual(t, got[0].ID, got[1].ID)
	require.Equal(t, "502 after HTTP; usually 200", got[0].Summary)
	require.Equal(t, line, got[0].Line)
	require.Equal(t, web, got[0].Session)
	require.EqualValues(t, 2000, got[0].Rank)
	require.EqualValues(t, 7, got[1].Incident.Lines)
	require.Nil(t, got[0].Ends)
	require.NotNil(t, got[1].Ends)
	require.Equal(t, 2, c.count("webhook sent"))
	require.Zero(t, c.waiting)
	require.Empty(t, c.notes)
}

func TestReceiverThatComesBackGetsAll(t *testing.T) {
	b, c := newInbox(t), &account{}
	b.answer(http.StatusBadGateway)
	n := start(t, c, "", receiver(t, b.URL))
	for i := range int64(5) {
		n.Incident(web, "", incident(i+1), nil)
	}
	require.Eventually(t, func() bool { return b.tried() >= 4 }, time.Minute, time.Millisecond)
	require.Len(t, c.notes, 1)
	require.Contains(t, c.notes[0], "answered 502 Bad Gateway")
	require.Equal(t, 5, c.waiting)
	b.answer(http.StatusNoContent)
	for i, a := range b.alerts(t, 5) {
		require.EqualValues(t, i+1, a.Incident.Number)
	}
	require.Zero(t, n.Close(time.Minute))
	require.Len(t, c.notes, 2)
	require.Contains(t, c.notes[1], "accepts alerts again")
	require.GreaterOrEqual(t, c.count("webhook failed"), 4)
	require.Equal(t, 5, c.count("webhook sent"))
}

func TestSlowReceiverDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := &account{}, time.Now()
		r := &Receiver{kind: "webhook", name: "slow"}
		r.send = func(ctx context.Context, _ []Alert) error {
			<-ctx.Done()
			return ctx.Err()
		}
		n := start(t, c, "", r)
		for i := range int64(queueMost + 10) {
			n.Incident(web, "", incident(i+1), nil)
		}
		require.Zero(t, time.Since(begun))
		synctest.Wait()
		require.Equal(t, 10, c.count("webhook dropped"))
		require.Equal(t, queueMost, c.waiting)
		require.Equal(t, queueMost, n.Close(time.Second), "nothing keeps them")
		require.Len(t, c.notes, 1, "that some are dropped is said once")
	})
}

func TestRestartDeliversWhatWaits(t *testing.T) {
	b, c := newInbox(t), &account{}
	b.answer(http.StatusServiceUnavailable)
	file := filepath.Join(t.TempDir(), "alerts", "serve.json")
	n := start(t, c, file, receiver(t, b.URL))
	n.Incident(web, "", incident(1), nil)
	n.Kept()
	had, err := os.ReadFile(file) // the file as a crash leaves it
	require.NoError(t, err)
	want := n.queues[0].all()[0].ID
	require.Zero(t, n.Close(0))
	require.NoError(t, os.WriteFile(file, had, 0o600))

	b.answer(http.StatusOK)
	n = start(t, c, file, receiver(t, b.URL))
	c.reaches(t, "webhook sent", 1)
	require.Zero(t, n.Close(time.Minute))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, got := range b.got { // the server may still answer the first Notifier's last request
		require.Equal(t, want, got.ID)
	}
}

// An incident that is open before and after a restart causes one alert. Incidents that open or end
// during the restart are reported afterwards.
func TestRestartTellsOpenIncidentOnce(t *testing.T) {
	b, c := newInbox(t), &account{}
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, c, file, receiver(t, b.URL))
	n.Incident(web, "", incident(1), nil)
	n.Incident(web, "", incident(2), nil)
	n.Incident(web, "", incident(3), nil)
	b.alerts(t, 3)
	require.Zero(t, n.Close(time.Minute))

	n = start(t, c, file, receiver(t, b.URL))
	// Incident 1 is still open, incident 2 was closed, and incident 4 is new. The session no longer
	// remembers incident 3.
	n.Incidents(web, "", []api.Incident{*incident(4), *closed(incident(2)), *incident(1)})
	n.Incidents(Session{ID: "other"}, "", nil)
	got := map[string]bool{}
	for _, a := range b.alerts(t, 6)[3:] {
		got[fmt.Sprint(a.Incident.Number, a.Status)] = true
	}
	require.Equal(t, map[string]bool{"4firing": true, "2resolved": true, "3resolved": true}, got)
	n.Left(web.ID)
	n.Incidents(web, "", nil) // without effect: another server has the session
	require.Zero(t, n.Close(time.Minute))
	b.alerts(t, 6)
}

// After a restart, a server sends no reminders for sessions that another server has.
func TestRestartForgetsSessionsThatLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, &account{}, file)
	n.Incident(web, "", incident(1), nil)
	n.Kept()
	n.Left(web.ID)
	require.Zero(t, n.Close(0))
	n = start(t, &account{}, file)
	require.Empty(t, n.firing())
	require.Zero(t, n.Close(0))
}

func TestVerdictDecides(t *testing.T) {
	b, c := newInbox(t), &account{}
	n := start(t, c, "", receiver(t, b.URL))
	n.Incident(web, "", judged(incident(1), api.VerdictFalseAlarm), nil)
	usual := incident(2)
	usual.P = 1. / 100
	yes := judged(usual, api.VerdictMatters)
	n.Incident(web, "", yes, nil)
	require.EqualValues(t, 2, b.alerts(t, 1)[0].Incident.Number)
	n.Incident(web, "", judged(usual, api.VerdictFalseAlarm), nil)
	require.Equal(t, Resolved, b.alerts(t, 2)[1].Status)
	n.Incident(web, "", yes, nil) // the user corrects the last verdict
	n.Incident(web, "", closed(yes), nil)
	got, seen := b.alerts(t, 4), map[string]bool{}
	for i, a := range got {
		require.Equal(t, []Status{Firing, Resolved}[i%2], a.Status)
		require.Equal(t, got[0].IncidentID, a.IncidentID)
		require.False(t, seen[a.ID], "no repeat of another")
		seen[a.ID] = true
	}
	require.Zero(t, n.Close(time.Minute))
}

func TestRefusedAlertDoesNotBlock(t *testing.T) {
	b, c := newInbox(t), &account{}
	b.answer(http.StatusNotFound)
	n := start(t, c, "", receiver(t, b.URL+"/secret"))
	n.Incident(web, "", incident(1), nil)
	n.Incident(web, "", incident(2), nil)
	c.reaches(t, "webhook refused", 2)
	require.Equal(t, 2, b.tried())
	b.answer(http.StatusOK)
	n.Incident(web, "", incident(3), nil)
	b.alerts(t, 1)
	require.Zero(t, n.Close(time.Minute))
	require.Len(t, c.notes, 2)
	require.NotContains(t, strings.Join(c.notes, ""), "secret")
}

// A receiver's answer may quote its URL, and the URL may contain a secret.
func TestFailuresHideSecretsOfURL(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no POST "+r.RequestURI, http.StatusNotFound)
	}))
	defer httpClient.CloseIdleConnections()
	defer s.Close()
	c := &account{}
	n := start(t, c, "", receiver(t, s.URL+"/to/T0ken%20T0ken?key=s3cret-key&x=y"))
	n.Incident(web, "", incident(1), nil)
	c.reaches(t, "webhook refused", 1)
	require.Zero(t, n.Close(time.Minute))
	require.Len(t, c.notes, 1)
	require.Contains(t, c.notes[0], "no POST /to/...?key=...&x=y")
}

func TestReceiverMayAskForTime(t *testing.T) {
	var r http.Response
	r.StatusCode, r.Header = http.StatusTooManyRequests, http.Header{"Retry-After": {"86400"}}
	require.ErrorContains(t, statusError(&r, nil), "retry after 10m0s")
	r.Header.Set("Retry-After", "soon")
	require.ErrorContains(t, statusError(&r, []byte("busy")), `"busy"`)
}

func TestIncidentWithoutNewsEnds(t *testing.T) {
	b, c := newInbox(t), &account{}
	n := start(t, c, "", receiver(t, b.URL))
	n.Incident(web, "", incident(1), nil)
	n.endBefore(time.Now().Add(-time.Hour))
	b.alerts(t, 1)
	n.endBefore(time.Now().Add(time.Second))
	require.Equal(t, Resolved, b.alerts(t, 2)[1].Status)
	require.Zero(t, n.Close(time.Minute))
}

// At the limit of open incidents, a new incident ends the open incident without news for the
// longest time. If the ended incident has news later, it gets another alert with another id.
func TestNewIncidentEndsOldestOne(t *testing.T) {
	b, c := newInbox(t), &account{}
	n := start(t, c, "", receiver(t, b.URL))
	for i := range openMost + 1 {
		n.Incident(web, "", incident(int64(i)), nil)
		if i%100 == 0 { // wait for the alerts so far, because a queue holds fewer than openMost
			b.alerts(t, i+1)
		}
	}
	got := b.alerts(t, openMost+2)
	require.Len(t, n.firing(), openMost)
	first, ended := got[0], got[openMost]
	require.Equal(t, Resolved, ended.Status)
	require.Equal(t, first.IncidentID, ended.IncidentID)
	n.Incident(web, "", incident(0), nil)
	again := b.alerts(t, openMost+4)[openMost+3]
	require.Equal(t, Firing, again.Status)
	require.Equal(t, first.IncidentID, again.IncidentID)
	require.NotEqual(t, first.ID, again.ID)
	require.Zero(t, n.Close(time.Minute))
}

func TestSilenceEndsWithLine(t *testing.T) {
	b, c := newInbox(t), &account{}
	n := start(t, c, "", receiver(t, b.URL))
	since := time.Now().Add(-time.Minute)
	n.Silence(web, "app.log", since, 20*time.Second)
	n.Heard(web, "other.log")
	n.Heard(web, "app.log")
	n.Heard(web, "app.log")
	got := b.alerts(t, 2)
	require.Zero(t, n.Close(time.Minute))
	require.Equal(t, KindSilence, got[0].Kind)
	require.Equal(t, "no line for 20s, which is unusual", got[0].Summary)
	require.True(t, since.Equal(got[0].Starts))
	require.Equal(t, Resolved, got[1].Status)
	require.Equal(t, got[0].IncidentID, got[1].IncidentID)
	require.Equal(t, "LmserveSilence", got[0].postable(since).Labels["alertname"])
}

// A silence ends only when a line arrives, or when the log is watched again.
func TestSilenceLastsForDays(t *testing.T) {
	b, c := newInbox(t), &account{}
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, c, file, receiver(t, b.URL))
	n.Silence(web, "app.log", time.Now(), time.Minute)
	n.Incident(web, "app.log", incident(1), nil)
	n.endBefore(time.Now().Add(time.Hour))
	open := n.firing()
	require.Len(t, open, 1, "the incident alone has lapsed")
	require.Equal(t, KindSilence, open[0].Kind)
	b.alerts(t, 3)
	require.Zero(t, n.Close(time.Minute))
	n = start(t, c, file, receiver(t, b.URL))
	got := b.alerts(t, 4)
	require.Equal(t, KindSilence, got[3].Kind)
	require.Equal(t, Resolved, got[3].Status)
	require.Zero(t, n.Close(time.Minute))
}

func TestLinesInFrontAreTold(t *testing.T) {
	b, c := newInbox(t), &account{}
	const text = "half a line\none\r\ntwo\nthree \xff\nfour\n"
	n, err := Start(Options{
		Receivers: []*Receiver{receiver(t, b.URL)}, Threshold: 1, Note: c.note,
		Text: func(_ context.Context, session string, offset, length int64) ([]byte, error) {
			if session != web.ID {
				return nil, errors.New("gone")
			}
			require.EqualValues(t, beforeBytes, length)
			return []byte(text), nil
		},
	})
	require.NoError(t, err)
	l := &api.LineEvent{Number: 9, Offset: 5000, Rank: 3000, P: 1. / 3000, Text: new("five")}
	n.Line(web, "app.log", l)
	n.Line(Session{ID: "x"}, "app.log", l)
	got := b.alerts(t, 2)
	require.Equal(t, []string{"two", "three \uFFFD", "four"}, got[0].Line.Before)
	require.Empty(t, got[1].Line.Before)
	require.Equal(t, KindLine, got[0].Kind)
	require.Zero(t, n.Close(time.Minute))
}

func TestCommandGetsJSON(t *testing.T) {
	c, out := &account{}, filepath.Join(t.TempDir(), "out")
	n := start(t, c, "", receiver(t, fmt.Sprintf("exec:test -e %[1]s.ready && cat >> %[1]s", out)))
	n.Incident(web, "", incident(1), nil)
	c.reaches(t, "exec failed", 1)
	require.NoError(t, os.WriteFile(out+".ready", nil, 0o600))
	c.reaches(t, "exec sent", 1)
	require.Zero(t, n.Close(time.Minute))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	var a Alert
	require.NoError(t, json.Unmarshal(text, &a))
	require.EqualValues(t, 1, a.Incident.Number)
	require.Contains(t, c.notes[0], "the command failed: exit status 1")
}

func TestCollectorGetsLogRecords(t *testing.T) {
	bodies := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/logs", r.URL.Path)
		require.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		bodies <- body
	}))
	defer httpClient.CloseIdleConnections()
	defer s.Close()
	n := start(t, &account{}, "", receiver(t, "otlp:"+s.URL))
	n.Incident(web, "app.log", incident(1), nil)
	body := <-bodies
	require.Zero(t, n.Close(time.Minute))
	var request logsservice.ExportLogsServiceRequest
	require.NoError(t, proto.Unmarshal(body, &request))
	record := request.ResourceLogs[0].ScopeLogs[0].LogRecords[0]
	require.Equal(t, "502 after HTTP; usually 200", record.Body.GetStringValue())
	attributes := map[string]string{}
	for _, a := range record.Attributes {
		attributes[a.Key] = a.Value.GetStringValue()
	}
	require.Equal(t, "web", attributes["lmserve.session.name"])
	require.Equal(t, "firing", attributes["lmserve.alert.status"])
	var a Alert
	require.NoError(t, json.Unmarshal([]byte(attributes["lmserve.alert"]), &a))
	require.Equal(t, attributes["lmserve.alert.id"], a.ID)
}

// A file's name may be invalid UTF-8, and protobuf refuses strings that are not UTF-8.
func TestLogRecordIsUTF8(t *testing.T) {
	a := ofIncident(web, "na\xefve.log", "id", incident(1), nil, time.Now())
	record, err := a.record(time.Now())
	require.NoError(t, err)
	_, err = proto.Marshal(record)
	require.NoError(t, err)
}

func TestReceiversThatCannotBeAreRefused(t *testing.T) {
	for _, what := range []string{
		"", "exec:", "exec: ", "alertmanager:", "alertmanager:host:9093", "ftp://host/",
		"otlp:http://", "http://",
	} {
		_, err := ParseReceiver(what)
		require.ErrorContains(t, err, "expected", what)
	}
	r := receiver(t, "https://user:pass@hooks.example.org/services/T0/B0/token?x=y")
	require.Equal(t, "webhook at hooks.example.org", r.String())
	require.NotContains(t, r.key(), "token")
}

func TestAlertsGoOutWithoutTheirFile(t *testing.T) {
	b, c := newInbox(t), &account{}
	dir := t.TempDir()
	n := start(t, c, filepath.Join(dir, "alerts", "x.json"), receiver(t, b.URL))
	// A file in place of the folder makes writing fail.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts"), nil, 0o600))
	n.Incident(web, "", incident(1), nil)
	n.Kept()
	b.alerts(t, 1)
	require.Zero(t, n.Close(time.Minute))
	require.Len(t, c.notes, 1)
}

// A second server fails to start in the folder of a running server. Its Notifier must leave the
// first server's file unchanged.
func TestNotifierWithoutNewsWritesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, &account{}, file)
	n.Incident(web, "", incident(1), nil)
	n.Kept()
	other := start(t, &account{}, file)
	n.Incident(web, "", incident(2), nil)
	n.Kept()
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Zero(t, other.Close(0))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Zero(t, n.Close(0))
}

func TestFileOfAnotherVersionIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alerts.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"version":2}`), 0o600))
	_, err := Start(Options{File: file})
	require.ErrorContains(t, err, "version is 2, expected 1")
}
