package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

func TestWatchTellsThatALogStopped(t *testing.T) {
	var out bytes.Buffer
	r := newLineReport(&out, &out, false)
	r.incidents = &incidentReport{}
	begun := time.Now()
	r.heardLocked("app.log")
	require.Empty(t, r.silentSince(begun.Add(-time.Second)))
	require.Equal(t, []string{"app.log"}, r.silentSince(time.Now().Add(time.Second)))
	r.silentAfter("app.log", client.IncidentList{SilentSeconds: new(30.)})
	require.Empty(t, r.silentSince(time.Now().Add(time.Second)), "it is asked once")
	r.tellSilences(begun.Add(20 * time.Second))
	require.Empty(t, out.String())
	for range 3 {
		r.tellSilences(begun.Add(45 * time.Second))
	}
	require.Equal(t, "silence   app.log: no line for 45s; unusual after 30s\n", out.String())

	r.heardLocked("app.log")
	r.silentAfter("app.log", client.IncidentList{})
	r.tellSilences(begun.Add(time.Hour))
	require.Equal(t, 1, strings.Count(out.String(), "silence"), "its lines do not tell")
}

// While the server is down, a log has lines that it cannot score. This is no silence of the log.
func TestLogThatWaitsForTheServerIsNotSilent(t *testing.T) {
	var out bytes.Buffer
	r := newLineReport(&out, &out, false)
	r.incidents = &incidentReport{}
	r.heardLocked("app.log")
	r.incidents.silences["app.log"].since = time.Now().Add(-time.Hour)
	r.heard("app.log")
	require.Empty(t, r.silentSince(time.Now().Add(-silenceLeast)))
	r.silentAfter("app.log", client.IncidentList{SilentSeconds: new(30.)})
	r.tellSilences(time.Now())
	require.Empty(t, out.String())
}

// From the timestamps in a log, the server derives how long a silence must last to be unusual.
func TestIncidentsSayWhenSilenceIsUnusual(t *testing.T) {
	url, stop := serving(t, "--model", "counts")
	defer stop()
	cl, err := client.New(url)
	require.NoError(t, err)
	s, err := cl.CreateSession(t.Context(), client.SessionRequest{})
	require.NoError(t, err)
	var log strings.Builder
	for i := range 900 {
		fmt.Fprintf(&log, "2026-11-27T10:%02d:%02dZ INFO tick %d\n", i/60, i%60, i%7)
	}
	_, err = cl.ScoreText(t.Context(), s.ID, []byte(log.String()), client.ScoreOptions{Lines: true,
		NoText: true})
	require.NoError(t, err)
	list, err := cl.ListIncidents(t.Context(), s.ID)
	require.NoError(t, err)
	require.NotNil(t, list.SilentSeconds)
	require.InDelta(t, 20, *list.SilentSeconds, 18)
}
