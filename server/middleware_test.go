package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
)

func TestRequestIDIsTheClientsIfSane(t *testing.T) {
	g := newRig(t, Options{})
	for id, kept := range map[string]bool{
		"a-B_9.x": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
		"a b": false, "a\"b": false, "": false,
	} {
		got := g.do("GET", "/healthz", nil, answer.HeaderRequestID,
			id).Header.Get(answer.HeaderRequestID)
		require.Equal(t, kept, got == id, id)
		require.NotEmpty(t, got)
	}
}

func TestAccessLogHasOneEntryARequest(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	g := newRig(t, Options{Log: zap.New(core)})
	path := g.create("{}")
	resp := g.text(path+"/score", "hello", answer.HeaderRequestID, "my-id")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	g.do("GET", "/healthz", nil)
	g.do("GET", "/nowhere", nil)

	entries := logs.FilterMessage("request")
	require.Eventually(t,
		func() bool { entries = logs.FilterMessage("request"); return entries.Len() == 4 },
		5*time.Second, time.Millisecond)
	all := entries.All()
	score := all[1].ContextMap()
	require.Equal(t, "POST", score["method"])
	require.Equal(t, "/v1/sessions/{id}/score", score["route"])
	require.Equal(t, strings.TrimPrefix(path, "/v1/sessions/"), score["session"])
	require.EqualValues(t, 200, score["status"])
	require.EqualValues(t, 5, score["bytes_in"])
	require.EqualValues(t, len(body), score["bytes_out"])
	require.Equal(t, "my-id", score["request_id"])
	require.Contains(t, score, "duration")
	require.Equal(t, zap.InfoLevel, all[1].Level)
	require.Equal(t, zap.DebugLevel, all[2].Level, "probes are noise")
	require.EqualValues(t, 404, all[3].ContextMap()["status"])
}

func TestPanicIsProblemOrCutStream(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	g := newRig(t, Options{Log: zap.New(core)})
	path := g.create("{}")
	g.fake.boom = true
	p := requireProblem(t, g.do("GET", path, nil), api.ProblemInternal)
	require.NotContains(t, *p.Detail, "boom")
	require.Equal(t, p.RequestID, logs.FilterMessage("panic").All()[0].ContextMap()["request_id"])

	events := readEvents(g.text(path+"/score", "hello", "Accept", contract.MediaEventStream))
	_, err := events.next()
	require.NoError(t, err)
	_, err = events.next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a stream that failed so must not look complete")
	require.Equal(t, http.StatusOK, g.do("GET", "/healthz", nil).StatusCode)
}
