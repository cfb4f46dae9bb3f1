package server

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/codec"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

func TestStateProgressIsReportedInBytes(t *testing.T) {
	done := session.Recovery{Done: 1200, Of: 37500}
	p := problem.Of(fmt.Errorf("somewhere: %w", &session.RecoveringError{Recovery: done}))
	require.Equal(t, api.ProblemOverloaded, p.Type)
	require.Contains(t, *p.Detail, "1200 of 37500 bytes")
	require.Equal(t, limits.RetryAfterBusy, p.RetryAfter)
	require.Equal(t, &api.Recovering{DoneBytes: 1200, OfBytes: 37500},
		codec.EncodeSession(session.Info{Recovery: &done}).Recovering)
	require.Nil(t, codec.EncodeSession(session.Info{}).Recovering)
}

// Every request that needs a session's state accepts the parameter wait.
func TestRequestWaitsForForkFarBack(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{ForkSnapshots: 2, ReplayMax: 1})
	path := g.create("{}")
	g.score(path, someText)
	g.score(path, someText)
	fork := func() string {
		made := decode[api.Session](t, g.json(path+"/fork", `{"at_offset":77}`), http.StatusCreated)
		return "/v1/sessions/" + made.ID
	}
	for _, request := range []func(path string) *http.Response{
		func(path string) *http.Response { return g.text(path+"/score?wait=60s", "x") },
		func(path string) *http.Response { return g.text(path+"/score?learn=false&wait=60s", "x") },
		func(path string) *http.Response {
			return g.json(path+"/complete?wait=60s",
				`{"max_tokens":1}`)
		},
		func(path string) *http.Response { return g.do("GET", path+"/snapshot?wait=60s", nil) },
	} {
		require.Equal(t, http.StatusOK, request(fork()).StatusCode)
	}
	p := requireProblem(t, g.do("GET", path+"/snapshot?wait=11m", nil), api.ProblemInvalidParameter)
	require.Equal(t, "wait", *p.Field)
}
