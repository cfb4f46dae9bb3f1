package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
)

// If reminders fail, Alertmanager ends open alerts, and the operator must know.
func TestFailedRemindersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, down := &account{}, atomic.Bool{}
		r := &Receiver{kind: "alertmanager", name: "alertmanager at am", every: remindEvery}
		r.send = func(context.Context, []Alert) error {
			if down.Load() {
				return errors.New("no route to host")
			}
			return nil
		}
		n := start(t, c, "", r)
		n.Incident(web, "", incident(1), nil)
		synctest.Wait()
		down.Store(true)
		time.Sleep(3*remindEvery + time.Second)
		synctest.Wait()
		require.Equal(t, 3, c.count("alertmanager failed"))
		require.Len(t, c.notes, 1)
		require.Contains(t, c.notes[0], "no route to host")
		down.Store(false)
		time.Sleep(2 * remindEvery)
		synctest.Wait()
		require.Len(t, c.notes, 2)
		require.Contains(t, c.notes[1], "accepts alerts again")
		require.Zero(t, n.Close(time.Minute))
	})
}

// Each answer that causes a retry may have a Retry-After, in seconds or as a date.
func TestEveryRetriedAnswerMayAskForTime(t *testing.T) {
	in := time.Now().Add(5*time.Minute + time.Second).UTC().Format(http.TimeFormat)
	for _, code := range []int{408, 425, 429, 500, 502, 503, 504} {
		for text, want := range map[string]string{
			"300": "retry after 5m0s", in: "retry after 5m", "99999999999999999999": "10m0s",
		} {
			var r http.Response
			r.StatusCode, r.Header = code, http.Header{"Retry-After": {text}}
			require.ErrorContains(t, statusError(&r, nil), want, "%d %s", code, text)
		}
	}
}

// Alertmanager refuses an alert that ends before it starts. The program's clock may be set back
// while an incident is open.
func TestAlertNeverEndsBeforeItStarts(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	a := ofIncident(web, "app.log", "id", incident(1), nil, now)
	for _, p := range []postable{
		a.postable(now.Add(-time.Hour)),
		new(a.resolved(now.Add(-time.Hour))).postable(now.Add(-time.Hour)),
	} {
		require.False(t, p.Ends.Before(p.Starts), "%v to %v", p.Starts, p.Ends)
	}
}

// A receiver may quote its URL with the escapes of the query removed.
func TestFailuresHideUnescapedQuery(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no key "+r.URL.Query().Get("key"), http.StatusNotFound)
	}))
	defer httpClient.CloseIdleConnections()
	defer s.Close()
	err := webhook(s.URL+"/hook?key=s3cret%2Bkey").send(t.Context(), []Alert{{}})
	require.ErrorContains(t, err, "no key ...")
}

// A part of a URL may begin with another part.
func TestFailuresHideLongestPartsFirst(t *testing.T) {
	u, err := url.Parse("https://example.org/incident/incident-s3cret")
	require.NoError(t, err)
	require.Equal(t, "no .../...", string(hidden(u, []byte("no incident/incident-s3cret"))))
}

func TestSilencesKeepToLimitOfOpenAlerts(t *testing.T) {
	c := &account{}
	n := start(t, c, "")
	for i := range openMost + 10 {
		n.Silence(web, fmt.Sprint(i, ".log"), time.Unix(int64(i), 0), time.Minute)
	}
	require.Equal(t, openMost, len(n.firing()))
	require.Zero(t, n.Close(0))
}

// The stream of a silent log may begin again after an error.
func TestListOfIncidentsEndsNoSilence(t *testing.T) {
	n := start(t, &account{}, "")
	n.Silence(web, "app.log", time.Now(), time.Minute)
	n.Incidents(web, "app.log", []api.Incident{*incident(1)})
	require.Len(t, n.firing(), 2)
	require.Zero(t, n.Close(0))
}

// A receiver ignores an alert whose id it knows. So an incident that opens again needs another id,
// even if the program was restarted meanwhile.
func TestReopenedIncidentHasNewIDAfterRestart(t *testing.T) {
	b, c := newInbox(t), &account{}
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, c, file, receiver(t, b.URL))
	n.Incident(web, "", incident(1), nil)
	n.Incidents(web, "", []api.Incident{*judged(incident(1), api.VerdictFalseAlarm)})
	b.alerts(t, 2)
	require.Zero(t, n.Close(time.Minute))

	n = start(t, c, file, receiver(t, b.URL))
	n.Incidents(web, "", []api.Incident{*incident(1)}) // the user revokes the verdict
	got := b.alerts(t, 3)
	require.Equal(t, Firing, got[2].Status)
	require.Equal(t, got[0].IncidentID, got[2].IncidentID)
	require.NotEqual(t, got[0].ID, got[2].ID)
	require.Zero(t, n.Close(time.Minute))
}

// An incident ends after 24 hours without a line. A later restore of the session's state, which
// still has the incident as open, is no news.
func TestRestoredStateReopensNoEndedIncident(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b, c := newInbox(t), &account{}
		file := filepath.Join(t.TempDir(), "alerts.json")
		n := start(t, c, file, receiver(t, b.URL))
		n.Incident(web, "", incident(1), nil)
		n.endBefore(time.Now().Add(time.Second))
		b.alerts(t, 2)
		if restarted {
			require.Zero(t, n.Close(time.Minute))
			n = start(t, c, file, receiver(t, b.URL))
		}
		n.Incidents(web, "", []api.Incident{*incident(1)})
		require.Empty(t, n.firing())
		n.Incident(web, "", incident(1), nil) // another line has joined
		got := b.alerts(t, 3)
		require.Equal(t, Firing, got[2].Status)
		require.NotEqual(t, got[0].ID, got[2].ID)
		n.Incidents(web, "", []api.Incident{*closed(incident(1))})
		require.Equal(t, Resolved, b.alerts(t, 4)[3].Status)
		require.Zero(t, n.Close(time.Minute))
	}
}

// The file has the time of an incident's last line, also if no alert was sent since.
func TestFileKeepsTimeOfLastNews(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, &account{}, file)
	n.Incident(web, "", incident(1), nil)
	n.Kept()
	opened, err := os.ReadFile(file)
	require.NoError(t, err)
	late := time.Now()
	n.Incident(web, "", incident(1), nil) // another line has joined
	n.Kept()
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(opened), string(got), "a line that joins causes no write at once")
	require.Zero(t, n.Close(time.Minute))

	n = start(t, &account{}, file)
	n.endBefore(late)
	require.Len(t, n.firing(), 1)
	require.Zero(t, n.Close(time.Minute))
}

// A crash loses the news of a minute at most.
func TestNewsIsWrittenWithinMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "alerts.json")
		n := start(t, &account{}, file)
		n.Incident(web, "", incident(1), nil)
		n.Kept()
		time.Sleep(time.Second)
		late := time.Now().UTC()
		n.Incident(web, "", incident(1), nil)
		time.Sleep(tidyEvery)
		n.Kept()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var had state
		require.NoError(t, json.Unmarshal(text, &had))
		require.Equal(t, late, had.Open[0].News)
		require.Zero(t, n.Close(time.Minute))
	})
}

// After a crash, watch first passes the incidents of an earlier offset. It then reports the lines
// after this offset again.
func TestEarlierListEndsAndOpensNothing(t *testing.T) {
	b, c := newInbox(t), &account{}
	file := filepath.Join(t.TempDir(), "alerts.json")
	n := start(t, c, file, receiver(t, b.URL))
	n.Incident(web, "", incident(1), nil)
	n.Incident(web, "", closed(incident(1)), nil)
	n.Incident(web, "", incident(2), nil)
	b.alerts(t, 3)
	require.Zero(t, n.Close(time.Minute))

	n = start(t, c, file, receiver(t, b.URL))
	n.Incidents(web, "", []api.Incident{*incident(1)})
	n.Incident(web, "", closed(incident(1)), nil)
	n.Incident(web, "", incident(2), nil)
	require.Len(t, n.firing(), 1)
	require.Zero(t, n.Close(time.Minute))
	b.alerts(t, 3)
}

// A command may print without end until its time is over.
func TestOutputOfCommandTakesLittleMemory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := command("head -c 100000000 /dev/zero; exit 1").send(t.Context(), []Alert{{}})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "exit status 1")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20))
	err = command("echo why; echo more >&2; exit 1").send(t.Context(), []Alert{{}})
	require.ErrorContains(t, err, `"why\nmore\n"`)
}

// A command that exceeds its time ends with all its children. Otherwise each retry would leave
// more of them.
func TestKilledCommandLeavesNoChildren(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	late := filepath.Join(t.TempDir(), "late")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	what := fmt.Sprintf("(sleep 1; echo late > %s) | cat", late)
	require.Error(t, command(what).send(ctx, []Alert{{}}))
	time.Sleep(2 * time.Second)
	require.NoFileExists(t, late)
}

// A receiver ignores an alert whose id it knows.
func TestOtherAlertsHaveOtherIDs(t *testing.T) {
	since := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	later := ofSilence(web, "app.log", since.Add(time.Hour), time.Minute)
	require.NotEqual(t, ofSilence(web, "app.log", since, time.Minute).ID, later.ID)
	require.NotEqual(t, ofSilence(web, "app.log", since, time.Minute).IncidentID, later.IncidentID)

	ids := map[string]bool{}
	for _, number := range []int64{0xD800, 0xD801, 2_000_000, 2_000_001} {
		line := &api.LineEvent{Number: number, Offset: 80_000_000 + number}
		ids[ofLine(web, "app.log", line, since).ID] = true
		one, other := incident(1), incident(1)
		one.Offset, other.Offset = 80_000_000+number, 90_000_000+number
		ids[incidentID(web.ID, one)], ids[incidentID(web.ID, other)] = true, true
	}
	require.Len(t, ids, 12)
}

func TestEachReopeningHasNewID(t *testing.T) {
	b := newInbox(t)
	n := start(t, &account{}, "", receiver(t, b.URL))
	for range 3 {
		n.Incident(web, "", incident(1), nil) // without a verdict, or the user has revoked it
		n.Incident(web, "", judged(incident(1), api.VerdictFalseAlarm), nil)
	}
	ids := map[string]bool{}
	for _, a := range b.alerts(t, 6) {
		ids[a.ID] = true
	}
	require.Len(t, ids, 6)
	require.Zero(t, n.Close(time.Minute))
}

// Earlier versions gave other ids to incidents. An upgrade repeats no alert, and ends an alert by
// the id under which it was opened.
func TestUpgradeRepeatsNoAlert(t *testing.T) {
	b, file := newInbox(t), filepath.Join(t.TempDir(), "alerts.json")
	still, early := incident(1), incident(2)
	still.Offset, early.Offset = 2_000_000, 3_000_000
	former := formerID(web.ID, still)
	text, err := json.Marshal(state{
		Version: stateVersion,
		Open: []opened{{
			Alert: ofIncident(web, "", former, still, nil, time.Now()), News: time.Now(),
		}},
		Ended: map[string]bool{formerID(web.ID, early): true},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))

	n := start(t, &account{}, file, receiver(t, b.URL))
	n.Incidents(web, "", []api.Incident{*early, *still})
	n.Incident(web, "", still, nil)
	require.Len(t, n.firing(), 1)
	n.Incident(web, "", closed(still), nil)
	n.Incident(web, "", early, nil) // another line has joined
	n.Incident(web, "", early, nil)
	got := b.alerts(t, 2)
	require.Equal(t, []Status{Resolved, Firing}, []Status{got[0].Status, got[1].Status})
	require.Equal(t, former, got[0].IncidentID)
	require.Zero(t, n.Close(time.Minute))
}
