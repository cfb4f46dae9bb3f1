package server

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/limits"
)

func raw(t *testing.T, conn net.Conn, text string) *http.Response {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func head(lines ...string) string {
	return strings.Join(append([]string{lines[0] + " HTTP/1.1"}, lines[1:]...), "\r\n") + "\r\n\r\n"
}

const (
	malformed = api.ProblemMalformedRequest

	// helloOfTLS begins like the first message of a TLS client. The test sends it to an HTTP
	// server.
	helloOfTLS = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"
)

var (
	goodRequest = head("GET /healthz", "Host: localhost")
	longPath    = "/" + strings.Repeat("x", limits.HeaderBytesMax+8<<10)
)

// earlyRefusals maps requests that do not reach a handler to the problem types of their answers.
var earlyRefusals = map[string]api.ProblemType{
	head("GET "+longPath, "Host: localhost"): api.ProblemHeadersTooLarge,
	head("POST /", "Host: localhost",
		"Transfer-Encoding: gzip"): api.ProblemUnsupportedTransferEncoding,

	head("POST /", "Host: localhost", "Content-Length: many"):                   malformed,
	head("POST /", "Host: localhost", "Content-Length: -1"):                     malformed,
	head("POST /", "Host: localhost", "Content-Length: 1", "Content-Length: 2"): malformed,
	head("POST /", "Host: localhost", "Expect: much", "Content-Length: 2"):      malformed,
	head("GET /healthz"):                                 malformed,
	head("GET /healthz", "Host: a", "Host: b"):           malformed,
	head("GET /healthz", "Host: localhost", "A name: x"): malformed,
	head("GET /%zz", "Host: localhost"):                  malformed,
	"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n":   malformed,
	helloOfTLS: malformed,
}

func TestRequestWithoutHandlerGetsProblem(t *testing.T) {
	g := newRig(t, Options{})
	for text, kind := range earlyRefusals {
		// first on the connection, or after a good request
		for _, before := range []bool{false, true} {
			conn := dial(t, g.addr)
			if before {
				_, err := io.Copy(io.Discard, raw(t, conn, goodRequest).Body)
				require.NoError(t, err)
			}
			resp := raw(t, conn, text)
			p := requireProblem(t, resp, kind)
			require.NotEmpty(t, p.Detail)
			require.True(t, resp.Close)
		}
	}
}

func TestAnswerThatLooksLikeRefusalIsUnchanged(t *testing.T) {
	const text = "HTTP/1.1 400 Bad Request\r\n\r\n"
	server, client := net.Pipe()
	defer client.Close()
	c := &earlyConn{Conn: server}
	c.handled.Store(true)
	go func() {
		_, _ = c.Write([]byte(text))
		_ = c.Close()
	}()
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// Refusals over TLS are the same. A client that speaks plain HTTP gets its refusal in plain HTTP.
func TestRefusalsOverTLS(t *testing.T) {
	g := newTLSRig(t, Options{})
	dialTLS := func() net.Conn {
		conn, err := tls.Dial("tcp", g.addr, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for text, kind := range earlyRefusals {
		if text != helloOfTLS {
			requireProblem(t, raw(t, dialTLS(), text), kind)
		}
	}
	require.Equal(t, http.StatusOK, raw(t, dialTLS(), goodRequest).StatusCode)
	p := requireProblem(t, raw(t, dial(t, g.addr), goodRequest), api.ProblemMalformedRequest)
	require.Contains(t, *p.Detail, "HTTPS")
}

// A proxy may determine the length of these requests differently. The server therefore closes the
// connection, so that it does not take later bytes for a request.
func TestLengthsInDoubtEndTheConnection(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	const chunks, hidden = "4\r\ntext\r\n0\r\n\r\n", "DELETE /v1/sessions/s-0001 " +
		"HTTP/1.1\r\nHost: localhost\r\n\r\n"
	begin := []string{"POST " + path + "/score", "Host: localhost", "Content-Type: text/plain"}
	headOf := func(more ...string) string { return head(append(begin, more...)...) }
	old := strings.Replace(headOf("Connection: keep-alive", "Transfer-Encoding: chunked"),
		"HTTP/1.1", "HTTP/1.0", 1)
	for name, text := range map[string]string{
		"both":                headOf("Content-Length: 4", "Transfer-Encoding: chunked") + chunks,
		"both, the other way": headOf("Transfer-Encoding: chunked", "Content-Length: 400") + chunks,
		"chunks":              headOf("Transfer-Encoding: chunked") + chunks,
		"chunks of HTTP/1.0":  old,
		"both of HTTP/1.0": strings.Replace(old, "\r\n\r\n", "\r\nContent-Length: 4\r\n\r\n",
			1) + "text",
	} {
		conn := dial(t, g.addr)
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err := io.WriteString(conn, text+hidden)
		require.NoError(t, err)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err, name)
		require.Equal(t, http.StatusOK, resp.StatusCode, name)
		require.True(t, resp.Close, name)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		_, err = in.ReadByte()
		require.Error(t, err, name)
		require.Equal(t, http.StatusOK, g.do("GET", path, nil).StatusCode, name)
	}
}
