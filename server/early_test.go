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

// raw sends a text as it is, and reads one answer.
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

const wholeRequest = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// earlyRefusals are requests that no handler ever sees, and what they are answered.
var earlyRefusals = map[string]api.ProblemType{
	"GET /" + strings.Repeat("x", limits.HeaderBytesMax+8<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n": api.ProblemHeadersTooLarge,
	"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n":                     api.ProblemMalformedRequest,
	"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n":                       api.ProblemMalformedRequest,
	"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":   api.ProblemMalformedRequest,
	"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n":                  api.ProblemUnsupportedTransferEncoding,
	"GET /healthz HTTP/1.1\r\n\r\n":                                                                     api.ProblemMalformedRequest,
	"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                               api.ProblemMalformedRequest,
	"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA header: x\r\n\r\n":                                   api.ProblemMalformedRequest,
	"GET /healthz HTTP/3.0\r\nHost: localhost\r\n\r\n":                                                  api.ProblemMalformedRequest,
	"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nExpect: much\r\nContent-Length: 2\r\n\r\n":        api.ProblemMalformedRequest,
	"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                      api.ProblemMalformedRequest,
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a client that speaks TLS to a server of HTTP\r\n\r\n": api.ProblemMalformedRequest,
}

func TestARequestThatNoHandlerSeesIsAnsweredByAProblem(t *testing.T) {
	g := newRig(t, Options{})
	for text, kind := range earlyRefusals {
		for _, before := range []bool{false, true} { // on a new connection, and behind a good request
			conn := dial(t, g.addr)
			if before {
				_, err := io.Copy(io.Discard, raw(t, conn, wholeRequest).Body)
				require.NoError(t, err)
			}
			resp := raw(t, conn, text)
			p := requireProblem(t, resp, kind)
			require.NotEmpty(t, p.Detail)
			require.True(t, resp.Close)
		}
	}
}

// What a handler writes is its own, whatever it looks like.
func TestAnAnswerThatLooksLikeARefusalIsLeftAsItIs(t *testing.T) {
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

// Over TLS it is the same, and a client that forgot TLS is told so in the clear.
func TestRefusalsOverTLS(t *testing.T) {
	g := newTLSRig(t, Options{})
	dialTLS := func() net.Conn {
		conn, err := tls.Dial("tcp", g.addr, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for text, kind := range earlyRefusals {
		if strings.HasPrefix(text, "\x16") {
			continue
		}
		requireProblem(t, raw(t, dialTLS(), text), kind)
	}
	require.Equal(t, http.StatusOK, raw(t, dialTLS(), wholeRequest).StatusCode)
	p := requireProblem(t, raw(t, dial(t, g.addr), wholeRequest), api.ProblemMalformedRequest)
	require.Contains(t, *p.Detail, "HTTPS")
}
