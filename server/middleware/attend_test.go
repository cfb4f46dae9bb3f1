package middleware

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

func serveStalled(t *testing.T, idle time.Duration, draining context.Context,
	h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(Stall(idle, draining)(h))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// begin connects and sends the head of a request whose body has size bytes.
func begin(t *testing.T, addr string, size int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		size)
	require.NoError(t, err)
	return conn
}

// numbers returns a text of consecutive numbers, in which missing, shifted or repeated parts are
// visible.
func numbers(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()[:size]
}

// The handler reads the bytes read ahead first and then the rest of the body. The bytes may be in
// memory, in a file or in transit.
func TestBodiesReadAheadAreReadWhole(t *testing.T) {
	for _, size := range []int{1, 40_000, 3_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			got, sent := make(chan string, 1), make(chan struct{})
			addr := serveStalled(t, time.Minute, t.Context(), func(w http.ResponseWriter,
				r *http.Request) {
				var all []byte
				for range 2 { // the first pass leaves buffered bytes for the second pass
					stop := Attend(r.Context())
					<-sent
					time.Sleep(2 * limits.AttendAfter)
					stop()
					Attend(r.Context())() // the handler returns before the body is read ahead
					part, _ := io.ReadAll(io.LimitReader(r.Body, int64(size/3)))
					all = append(all, part...)
				}
				rest, err := io.ReadAll(r.Body)
				if err != nil {
					rest = []byte(err.Error())
				}
				got <- string(append(all, rest...))
			})
			text := numbers(size)
			conn := begin(t, addr, size)
			_, err := io.WriteString(conn, text[:size*9/10])
			require.NoError(t, err)
			close(sent)
			time.Sleep(3 * limits.AttendAfter) // the server may read ahead meanwhile
			_, err = io.WriteString(conn, text[size*9/10:])
			require.NoError(t, err)
			require.True(t, text == <-got, "the text is whole")
		})
	}
}

// Beyond limits.AheadBytesMax, the server reads ahead slowly. It notices that the client has left
// once the bytes in transit have arrived.
func TestLeavingBehindALongBodyIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	ended := make(chan struct{})
	addr := serveStalled(t, time.Minute, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		defer Attend(r.Context())()
		<-r.Context().Done()
		close(ended)
	})
	conn := begin(t, addr, 1<<30)
	_, err := io.WriteString(conn, numbers(limits.AheadBytesMax+1<<20))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the client has left, and its request is under way")
	}
}

// A full disk stops reading ahead, but does not end the request or lose bytes.
func TestReadingAheadStopsWhereThereIsNoSpace(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	if _, err := os.Stat(os.TempDir()); err == nil {
		t.Skip("the folder for temporary files has another name here")
	}
	text, got := numbers(500_000), make(chan string, 1)
	addr := serveStalled(t, time.Minute, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		stop := Attend(r.Context())
		time.Sleep(3 * limits.AttendAfter)
		stop()
		all, _ := io.ReadAll(r.Body)
		got <- string(all)
	})
	_, err := io.WriteString(begin(t, addr, len(text)), text)
	require.NoError(t, err)
	require.True(t, text == <-got)
}

// A request that waited with an open body still gets a complete answer. If the server drains during
// the wait, reading the body returns an error.
func TestAttendedRequestsEndWithTheirBodiesOpen(t *testing.T) {
	draining, drain := context.WithCancel(t.Context())
	defer drain()
	addr := serveStalled(t, time.Minute, draining, func(w http.ResponseWriter, r *http.Request) {
		stop := Attend(r.Context())
		time.Sleep(2 * limits.AttendAfter)
		if r.URL.Path == "/drain" {
			drain()
			time.Sleep(limits.AttendAfter)
			stop()
			_, err := io.ReadAll(r.Body)
			fmt.Fprint(w, err, r.Context().Err())
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, "busy")
	})
	for _, expected := range []string{
		"409 Conflict busy /", "200 OK " + fmt.Sprint(session.ErrDraining, nil) + " /drain",
	} {
		path := expected[strings.LastIndex(expected, "/"):]
		body, text := io.Pipe()
		go func() { _, _ = io.WriteString(text, "open") }()
		resp, err := http.Post("http://"+addr+path, "text/plain", body)
		require.NoError(t, err)
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, expected, resp.Status+" "+string(all)+" "+path)
		require.NoError(t, resp.Body.Close())
		_ = text.Close()
	}
}

// While the handler waits (see Attend), the client's idle time does not count. After the wait, the
// idle time starts at zero.
func TestIdlenessIsNotCountedWhileAttended(t *testing.T) {
	const idle = 300 * time.Millisecond
	addr := serveStalled(t, idle, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		stop := Attend(r.Context())
		time.Sleep(limits.AttendAfter + 2*idle)
		stop()
		time.Sleep(2 * idle)
		_, err := io.ReadFull(r.Body, make([]byte, 4))
		_, late := io.ReadAll(r.Body)
		fmt.Fprint(w, err, os.IsTimeout(late))
	})
	conn := begin(t, addr, 100)
	time.AfterFunc(limits.AttendAfter+3*idle, func() { _, _ = io.WriteString(conn, "text") })
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "<nil> true")
}
