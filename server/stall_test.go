package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
)

func TestOnlyStalledBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	const idle = 500 * time.Millisecond
	g := newRig(t, Options{BodyIdleMax: idle})
	path := g.create(`{"settings":{"chunk":16}}`)

	body, text := io.Pipe()
	go func() {
		for range 8 { // The whole body takes longer than the idle limit.
			_, _ = io.WriteString(text, "x")
			time.Sleep(idle / 5)
		}
		_ = text.Close()
	}()
	moving := decode[api.SummaryEvent](t, g.do("POST", path+"/score", body, "Content-Type",
		"text/plain"), http.StatusOK)
	require.EqualValues(t, 8, moving.Bytes)

	body, text = io.Pipe()
	defer text.Close()
	go func() { _, _ = io.WriteString(text, "xyz") }()
	events := readEvents(g.do("POST", path+"/score", body, "Content-Type", "text/plain", "Accept",
		contract.MediaEventStream)).all(t)
	p := as[api.ErrorEvent](t, events[len(events)-1]).Problem
	require.Equal(t, api.ProblemBodyTimeout, p.Type)
	require.EqualValues(t, 11, *p.Offset, "what was reported stays")
	require.Equal(t, http.StatusOK, g.text(path+"/score?offset=11", "on").StatusCode,
		"the session is free")
}

// The read deadline ends with the body. The work after the body may take longer.
func TestEndedBodyHasNoDeadline(t *testing.T) {
	const idle = 200 * time.Millisecond
	g := newRig(t, Options{BodyIdleMax: idle, AnswerIdleMax: idle})
	path := g.create("{}")
	time.AfterFunc(2*idle, g.fake.hold("s-0001"))
	sum := decode[api.SummaryEvent](t, g.json(path+"/score", `{"text":"slow"}`), http.StatusOK)
	require.EqualValues(t, 4, sum.Bytes)
}

// AnswerIdleMax limits neither the total time of an answer nor the work before the answer.
func TestMovingAnswerIsNotCut(t *testing.T) {
	t.Parallel()
	const idle = 500 * time.Millisecond
	g := newRig(t, Options{AnswerIdleMax: idle})
	path := g.create("{}")
	body, text := io.Pipe()
	go func() {
		for range 8 {
			_, _ = io.WriteString(text, "x")
			time.Sleep(idle / 5)
		}
		_ = text.Close()
	}()
	events := readEvents(g.do("POST", path+"/score", body, "Content-Type", "text/plain", "Accept",
		contract.MediaEventStream)).all(t)
	require.EqualValues(t, 8, as[api.SummaryEvent](t, events[len(events)-1]).Bytes)

	time.AfterFunc(3*idle/2, g.fake.hold("s-0001"))
	require.Equal(t, http.StatusNoContent, g.do("DELETE", path, nil).StatusCode)
}

// A client that announces a body but sends none gets its error at once. Then the server closes the
// connection.
func TestErrorDoesNotWaitForUnwantedBody(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for name, request := range map[string]string{
		"wrong offset": "POST " + path + "/score?offset=5 HTTP/1.1\r\nContent-Type: text/plain\r\n",
		"wrong kind":   "POST " + path + "/score HTTP/1.1\r\nContent-Type: image/png\r\n",
		"wrong path":   "POST /nowhere HTTP/1.1\r\n",
		"no use":       "GET /healthz HTTP/1.1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", g.addr)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
			fmt.Fprintf(conn, "%sHost: localhost\r\nContent-Length: 100000\r\n\r\n", request)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err, "the connection is closed in time")
			require.Contains(t, string(answer), "Connection: close")
			require.Contains(t, string(answer), "X-Request-Id: ")
		})
	}
}

func TestConnectionsAreKeptWhereTheBodyWasRead(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	for _, resp := range []*http.Response{
		g.text(path+"/score", "text"), g.json(path+"/score", "{}"), g.json("/v1/sessions", "{"),
		g.do("GET", "/nowhere", nil),
	} {
		require.False(t, resp.Close, resp.Request.URL.Path)
	}
}

func TestClientThatDoesNotReadHarmsOnlyItself(t *testing.T) {
	g := newRig(t, Options{AnswerIdleMax: 300 * time.Millisecond})
	stalled, other := g.create(`{"settings":{"chunk":1}}`), g.create("{}")

	conn, err := net.Dial("tcp", g.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	// The events have about a hundred times as many bytes as the text. They fill all buffers
	// between server and client.
	const size = 1 << 20
	fmt.Fprintf(conn, "POST %s/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"text/plain\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n", stalled, size)
	go func() { _, _ = io.WriteString(conn, strings.Repeat("x", size)) }()

	require.Eventually(t, func() bool {
		return decode[api.Session](t, g.do("GET", stalled, nil),
			200).Offset > 0
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, g.text(other+"/score", "text").StatusCode)
	require.Eventually(t, func() bool {
		return g.text(stalled+"/score",
			"").StatusCode == http.StatusOK
	},
		20*time.Second, 50*time.Millisecond, "the stalled session is free again")
	offset := decode[api.Session](t, g.do("GET", stalled, nil), 200).Offset
	require.Less(t, offset, int64(size))
}
