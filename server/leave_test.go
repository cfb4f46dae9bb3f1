package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/limits"
)

// gone counts the logged requests that ended because the client left.
func gone(logs *observer.ObservedLogs) int {
	return logs.FilterField(zap.Int("status", answer.StatusClientGone)).Len()
}

func logged() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return zap.New(core), logs
}

// feedOpenly starts to feed a session with a request body that stays open. The function finish ends
// the body.
func feedOpenly(g *rig, path, begin string) (text io.Writer, finish func()) {
	g.t.Helper()
	body, out := io.Pipe()
	g.t.Cleanup(func() { _ = out.Close() })
	done := make(chan int, 1)
	go func() {
		r, err := http.NewRequest("POST", g.url+path+"/score", body)
		if err != nil {
			done <- 0
			return
		}
		r.Header.Set("Content-Type", "text/plain")
		resp, err := g.plain.Do(r)
		if err != nil {
			done <- 0
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		done <- resp.StatusCode
	}()
	_, err := io.WriteString(out, begin)
	require.NoError(g.t, err)
	require.Eventually(g.t, func() bool {
		return decode[api.Session](g.t, g.do("GET", path, nil),
			http.StatusOK).Offset >= int64(len(begin))
	}, 10*time.Second, time.Millisecond)
	return out, func() {
		_ = out.Close()
		require.Equal(g.t, http.StatusOK, <-done)
	}
}

// waiter returns the head of a score request that waits up to 600 s for earlier requests.
func waiter(path string, headers ...string) string {
	return head(append([]string{"POST " + path + "/score?wait=600s", "Host: localhost",
		"Content-Type: text/plain"}, headers...)...)
}

const endless = "Transfer-Encoding: chunked"

func sized(n int) string { return fmt.Sprint("Content-Length: ", n) }

func leavers(path string) map[string]struct {
	text  string
	reset bool
} {
	long := strings.Repeat("long ", 500_000)
	return map[string]struct {
		text  string
		reset bool
	}{
		"whole body":              {text: waiter(path, sized(4)) + "text"},
		"whole body, reset":       {text: waiter(path, sized(4)) + "text", reset: true},
		"long body":               {text: waiter(path, sized(len(long))) + long},
		"body cut off":            {text: waiter(path, sized(100)) + "cut"},
		"body cut off, reset":     {text: waiter(path, sized(100)) + "cut", reset: true},
		"long body cut off":       {text: waiter(path, sized(1<<30)) + long},
		"no byte of a body":       {text: waiter(path, sized(100))},
		"open body":               {text: waiter(path, endless) + "4\r\nopen\r\n"},
		"ended body without size": {text: waiter(path, endless) + "4\r\ndone\r\n0\r\n\r\n"},
		"lines": {text: head("POST "+path+"/score?wait=600s&unit=line", "Host: localhost",
			"Content-Type: text/plain", sized(100)) + "a line\n"},
	}
}

func sendAndLeave(t *testing.T, conn net.Conn, text string, reset bool) {
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	time.Sleep(2 * limits.AttendAfter) // By now the request waits.
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		require.NoError(t, tcp.SetLinger(0))
	}
	require.NoError(t, conn.Close())
}

// If a client leaves while its request waits, the request leaves the queue within a second. The
// server feeds none of its text.
func TestClientsThatLeaveGiveUpTheirPlace(t *testing.T) {
	t.Parallel()
	log, logs := logged()
	g := newRealRig(t, session.Options{}, Options{Log: log})
	path := g.create("{}")
	_, finish := feedOpenly(g.rig, path, "held")
	all := leavers(path)
	for name, leaver := range all {
		go func() {
			conn := dial(t, g.addr)
			sendAndLeave(t, conn, leaver.text, leaver.reset)
			t.Log(name, "has left")
		}()
	}
	require.Eventually(t, func() bool { return gone(logs) == len(all) }, 20*time.Second,
		10*time.Millisecond,
		"all have left, and the first still feeds")
	finish()
	require.EqualValues(t, 4, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
}

// An operation that takes no body ignores a body of any length, without a temporary file.
func TestIgnoredBodyIsNotStored(t *testing.T) {
	log, logs := logged()
	g := newRig(t, Options{Log: log})
	conn := dial(t, g.addr)
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	path := g.create("{}")
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	if _, err := os.Stat(os.TempDir()); err == nil {
		t.Skip("the folder for temporary files has another name here")
	}
	const size = limits.AheadBytesMax
	resp := raw(t, conn, head("GET "+path+"/events", "Host: localhost", endless)+
		fmt.Sprintf("%x\r\n", size))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err := conn.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		return logs.FilterField(zap.String("method", "GET")).Len() == 1
	}, 20*time.Second, 10*time.Millisecond)
}

func TestClientsThatLeaveOverTLSGiveUpTheirPlace(t *testing.T) {
	t.Parallel()
	log, logs := logged()
	g := newTLSRig(t, Options{Log: log})
	path := g.create("{}")
	_, finish := feedOpenly(g, path, "held")
	all := leavers(path)
	for _, leaver := range all {
		go func() {
			conn, err := tls.Dial("tcp", g.addr, &tls.Config{InsecureSkipVerify: true})
			require.NoError(t, err)
			sendAndLeave(t, conn, leaver.text, false)
		}()
	}
	require.Eventually(t, func() bool { return gone(logs) == len(all) }, 20*time.Second,
		10*time.Millisecond)
	finish()
	require.EqualValues(t, 4, decode[api.Session](t, g.do("GET", path, nil), http.StatusOK).Offset)
}

func TestLeavingClientCancelsForwardedRequest(t *testing.T) {
	t.Parallel()
	log, logs := logged()
	far := newRealRig(t, session.Options{}, Options{Log: log})
	near := newRig(t, Options{Places: &elsewhere{addr: far.url}})
	path := far.create("{}")
	_, finish := feedOpenly(far.rig, path, "held")
	all := leavers(path)
	for _, leaver := range all {
		go func() { sendAndLeave(t, dial(t, near.addr), leaver.text, leaver.reset) }()
	}
	require.Eventually(t, func() bool { return gone(logs) == len(all) }, 20*time.Second,
		10*time.Millisecond)
	finish()
	require.EqualValues(t, 4, decode[api.Session](t, far.do("GET", path, nil),
		http.StatusOK).Offset)
}

// A client that leaves during its request is no failure of the server that gets the request.
func TestLeavingForwardedRequestIsNoError(t *testing.T) {
	t.Parallel()
	log, logs := logged()
	far := newRealRig(t, session.Options{}, Options{})
	near := newRig(t, Options{Places: &elsewhere{addr: far.url}, Log: log})
	path := far.create("{}")
	conn := dial(t, near.addr)
	_, err := io.WriteString(conn, head("POST "+path+"/score", "Host: localhost",
		"Content-Type: text/plain", sized(100))+"part")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return decode[api.Session](t, far.do("GET", path, nil), http.StatusOK).Offset == 4
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return gone(logs) == 1 }, 20*time.Second,
		10*time.Millisecond)
	require.Zero(t, logs.FilterMessage("forwarded request cut").Len())
}

// The server notices that a client has left, even if part of the request body is unread.
func TestLeavingBehindAnUnwantedBodyIsNoticed(t *testing.T) {
	t.Parallel()
	log, logs := logged()
	g := newRig(t, Options{Log: log})
	path := g.create("{}")
	sendAndLeave(t, dial(t, g.addr), head("GET "+path+"/events", "Host: localhost", sized(100))+
		"part", false)
	ended := zap.String("route", "/v1/sessions/{id}/events")
	require.Eventually(t, func() bool { return logs.FilterField(ended).Len() == 1 }, 10*time.Second,
		10*time.Millisecond)
}

// The server feeds the complete text of a request that has waited, including the part read ahead.
// BodyIdleMax does not apply during the wait.
func TestTextsThatWaitedAreFedWhole(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	log, logs := logged()
	g := newRealRig(t, session.Options{}, Options{BodyIdleMax: idle, Log: log})
	path := g.create("{}")
	held, finish := feedOpenly(g.rig, path, "held")
	text := numbered(3, 1000)
	first, second := make(chan *http.Response, 1), make(chan *http.Response, 1)
	body, client := io.Pipe()
	go func() {
		first <- g.do("POST", path+"/score?wait=600s", body, "Content-Type",
			"text/plain")
	}()
	_, err := io.WriteString(client, text[:len(text)-10])
	require.NoError(t, err)
	for range 8 { // longer in total than BodyIdleMax
		_, err = io.WriteString(held, "!")
		require.NoError(t, err)
		time.Sleep(idle / 4)
	}
	go func() { second <- g.text(path+"/score?wait=600s", "another, whole") }()
	require.Zero(t, logs.FilterField(zap.String("route", "/v1/sessions/{id}/score")).Len(),
		"all are under way")
	finish()
	_, err = io.WriteString(client, text[len(text)-10:])
	require.NoError(t, err)
	require.NoError(t, client.Close())
	sum := decode[api.SummaryEvent](t, <-first, http.StatusOK)
	require.EqualValues(t, len(text), sum.Bytes)
	require.Equal(t, http.StatusOK, (<-second).StatusCode)
	all, err := io.ReadAll(g.do("GET", path+"/text?offset=0&length=1000000", nil).Body)
	require.NoError(t, err)
	require.Equal(t, "held!!!!!!!!"+text+"another, whole", string(all))
}
