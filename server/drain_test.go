package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func (f *fakeSessions) isDraining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

// A drain first withdraws readiness. It ends bodies that are still arriving, finishes requests that
// have arrived, and refuses new work. Then it closes the connections. Reported text is kept.
func TestDrainGoesInOrder(t *testing.T) {
	g := newRig(t, Options{DrainDelay: 100 * time.Millisecond})
	streaming, finishing := g.create(`{"settings":{"chunk":16}}`), g.create("{}")

	body, text := io.Pipe()
	defer text.Close()
	go func() { _, _ = io.WriteString(text, strings.Repeat("x", 16)) }()
	events := readEvents(g.do("POST", streaming+"/score", body, "Content-Type", "text/plain",
		"Accept", contract.MediaEventStream))
	first, err := events.next()
	require.NoError(t, err)

	release := g.fake.hold("s-0002")
	finished := make(chan api.Completion, 1)
	go func() {
		finished <- decode[api.Completion](t, g.json(finishing+"/complete", `{"max_tokens":8}`),
			http.StatusOK)
	}()
	require.Eventually(t, g.fake.sessions["s-0002"].busy.Load, 5*time.Second, time.Millisecond)

	drained := make(chan error, 1)
	go func() { drained <- g.server.Drain(t.Context()) }()
	require.Eventually(t,
		func() bool {
			return g.do("GET", "/readyz",
				nil).StatusCode == http.StatusServiceUnavailable
		},
		5*time.Second, time.Millisecond)

	last := events.all(t)
	require.Len(t, last, 1)
	p := as[api.ErrorEvent](t, last[0]).Problem
	require.Equal(t, api.ProblemDraining, p.Type)
	require.Equal(t, as[api.ChunkEvent](t, first).Totals.Bytes, *p.Offset)

	require.Eventually(t, g.fake.isDraining, 5*time.Second, time.Millisecond)
	requireProblem(t, g.do("POST", "/v1/sessions", nil), api.ProblemDraining)
	requireProblem(t, g.do("GET", "/readyz", nil), api.ProblemDraining)
	require.Equal(t, http.StatusOK, g.do("GET", "/healthz", nil).StatusCode, "draining is not ill")

	release()
	require.EqualValues(t, 8, (<-finished).Usage.CompletionTokens)
	require.NoError(t, <-drained)
	_, err = net.Dial("tcp", g.addr)
	require.Error(t, err, "nobody listens any more")
}

// If its context ends early, Drain cuts the requests and returns the error of the context.
func TestDrainEndsWithItsContext(t *testing.T) {
	fake := newFake()
	fake.hold("s-0001")
	s, err := New(fake, Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	_, err = fake.Create(t.Context(), session.Caller{}, session.CreateRequest{})
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	failed := make(chan error, 1)
	go func() {
		resp, err := client.Post("http://"+l.Addr().String()+"/v1/sessions/s-0001/complete",
			contract.MediaJSON, strings.NewReader("{}"))
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	require.Eventually(t, fake.sessions["s-0001"].busy.Load, 5*time.Second, time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, s.Drain(t.Context()), context.DeadlineExceeded,
		"it drained once; this is how")
	require.NoError(t, <-served)
	require.Error(t, <-failed, "the connection was cut")
}
