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
)

// A client that takes an answer slowly gets all of it: what ends an answer is
// that no byte of it moves. The system's buffers hold megabytes, and tell of room in them late.
func TestAnAnswerThatMovesSlowlyIsNotCut(t *testing.T) {
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

// Connections beyond the limit wait, and those that send nothing go in time.
func TestConnectionsHaveALimit(t *testing.T) {
	g := newRig(t, Options{ConnectionsMax: 3})
	var silent []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", g.addr)
		require.NoError(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := g.plain.Get(g.url + "/healthz")
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	select {
	case <-answered:
		t.Fatal("a fourth connection was accepted")
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, silent[1].Close())
	require.NoError(t, <-answered)
}
