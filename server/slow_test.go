package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// A slow client gets the whole answer, because the server cuts an answer only if no byte moves.
// Socket buffers hold megabytes, so a write may seem stalled while bytes still move.
func TestSlowAnswerIsNotCut(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	const idle, size = time.Second, 24 << 20
	g := newRig(t, Options{AnswerIdleMax: idle})
	path := g.create("{}")
	g.fake.exporting = size
	conn, err := net.Dial("tcp", g.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	fmt.Fprintf(conn, "GET %s/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	var taken int64
	for begun := time.Now(); time.Since(begun) < 5*idle; time.Sleep(50 * time.Millisecond) {
		n, err := io.CopyN(io.Discard, resp.Body, 16<<10)
		require.NoError(t, err)
		taken += n
	}
	require.Less(t, taken, int64(4<<20), "the client was slow")
	rest, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Greater(t, taken+rest, int64(size))
}

// At the limit, a new connection replaces an idle connection. A busy connection stays until its
// request is answered.
func TestConnectionsHaveALimit(t *testing.T) {
	g := newTLSRig(t, Options{ConnectionsMax: 3})
	for range 700 {
		conn, err := net.Dial("tcp", g.addr)
		require.NoError(t, err)
		defer conn.Close()
	}
	begun := time.Now()
	path := g.create("{}")
	require.Less(t, time.Since(begun), limits.HeaderTimeMax,
		"those who say nothing lock nobody out")

	var bodies []*io.PipeWriter
	answers := make(chan error, 1)
	for range 3 {
		body, text := io.Pipe()
		bodies = append(bodies, text)
		go func() { _, _ = io.WriteString(text, "at work") }()
		r, err := http.NewRequestWithContext(t.Context(), "POST", g.url+path+"/score", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("Accept", contract.MediaNDJSON)
		path = g.create("{}")
		resp, err := g.plain.Do(r) // Do returns when the first event has arrived.
		require.NoError(t, err)
		defer resp.Body.Close()
	}
	go func() {
		resp, err := g.plain.Get(g.url + path)
		if err == nil {
			err = resp.Body.Close()
		}
		answers <- err
	}()
	select {
	case <-answers:
		t.Fatal("a fourth connection was accepted")
	case <-time.After(500 * time.Millisecond):
	}
	for _, body := range bodies {
		require.NoError(t, body.Close())
	}
	require.NoError(t, <-answers)
}
