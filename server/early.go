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

// earlyListener accepts connections on which net/http's own refusals become problem documents.
// net/http sends them as text for requests that it cannot parse, before any handler, and has no
// hook for them.
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

// earlyConn is a connection that records whether a handler is serving a request. If not, net/http
// itself has written what the connection sends.
type earlyConn struct {
	net.Conn
	problems *answer.Problems
	handled  atomic.Bool
	noTLS    atomic.Pointer[net.Conn] // set under TLS if the client does not use TLS
}

// Read implements net.Conn. A client that speaks HTTP to an HTTPS server needs the refusal in plain
// HTTP.
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

// withConn stores a request's connection in its context for handling.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, earlyKey{}, c)
}

// handling marks a request's connection as served by a handler.
//
// It closes the connection after a request whose length a proxy may read differently (RFC 9112,
// section 6.1). Otherwise the proxy might take following bytes for a request. net/http hides a
// Content-Length next to a Transfer-Encoding, and the Transfer-Encoding of HTTP/1.0. So every
// chunked request and every HTTP/1.0 request closes its connection.
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

// noteState is net/http's hook for the begin and the end of a connection's requests.
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
