package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/lmserve/lmserve/server/answer"
)

// earlyListener accepts connections that turn net/http's own refusals into problem documents.
// net/http sends these refusals as text for requests that it cannot parse, and has no hook for
// them.
type earlyListener struct {
	net.Listener
	problems *answer.Problems
}

func (l earlyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &earlyConn{Conn: c, problems: l.problems}, nil
}

// earlyConn is a connection that records whether a handler is serving a request. Without a handler,
// the bytes to send are an answer of net/http itself.
type earlyConn struct {
	net.Conn
	problems *answer.Problems
	handled  atomic.Bool
	// the raw connection of a client that does not use TLS with an HTTPS server, else nil
	noTLS atomic.Pointer[net.Conn]
}

// Read implements net.Conn. If a client speaks HTTP to an HTTPS server, Read stores the raw
// connection, because the client can read only plain HTTP.
func (c *earlyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if noTLS, ok := errors.AsType[tls.RecordHeaderError](err); ok && noTLS.Conn != nil {
		c.noTLS.Store(&noTLS.Conn)
	}
	return n, err
}

func (c *earlyConn) Write(p []byte) (int, error) {
	if c.handled.Load() {
		return c.Conn.Write(p)
	}
	line, _, _ := strings.Cut(string(p[:min(len(p), 256)]), "\r\n")
	version, reason, _ := strings.Cut(line, " ")
	isRefusal := strings.HasPrefix(reason, "4") || strings.HasPrefix(reason, "5")
	if !isRefusal || !strings.HasPrefix(version, "HTTP/") {
		return c.Conn.Write(p)
	}
	to := c.Conn
	if under := c.noTLS.Load(); under != nil {
		to, reason = *under, "400 Bad Request: the server expects HTTPS here, but received HTTP: "+
			"use an https URL"
	}
	if _, err := to.Write(c.problems.Early(c.RemoteAddr().String(), reason)); err != nil {
		return 0, err
	}
	return len(p), nil
}

type earlyKey struct{}

// withConn stores a request's connection in the context, where handling finds it.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, earlyKey{}, c)
}

// handling marks a request's connection as served by a handler.
//
// It closes the connection after each chunked request and each HTTP/1.0 request. A proxy may
// determine the length of an ambiguous request differently (RFC 9112, section 6.1), and take the
// bytes that follow for a request. The server cannot recognize an ambiguous request: net/http hides
// a Content-Length next to a Transfer-Encoding, and the Transfer-Encoding of HTTP/1.0.
func handling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(earlyKey{}).(*earlyConn); ok {
			c.handled.Store(true)
		}
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// noteState implements the hook ConnState of http.Server.
func noteState(conn net.Conn, state http.ConnState) {
	early, ok := conn.(*earlyConn)
	if !ok {
		return
	}
	if state == http.StateIdle {
		early.handled.Store(false)
	}
	conn = early.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if c, ok := conn.(*placedConn); ok {
		c.note(state)
	}
}
