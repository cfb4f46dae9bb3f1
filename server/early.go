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

// earlyListener accepts connections on which net/http's own refusals become problem documents:
// those of requests that it cannot read, which no handler ever sees. net/http has no hook for them,
// and writes them as text.
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

// earlyConn is a connection that knows whether a handler is at work on a request of it. While none
// is, whatever is written is net/http's own.
type earlyConn struct {
	net.Conn
	problems *answer.Problems
	handled  atomic.Bool
	noTLS    atomic.Pointer[net.Conn] // under TLS, where the client speaks none; else nil
}

// Read implements net.Conn. A client that speaks HTTP to a server of HTTPS has to be told so in
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
		to, reason = *under, "400 Bad Request: the server speaks HTTPS here, and was sent HTTP"
	}
	if _, err := to.Write(c.problems.Early(c.RemoteAddr().String(), reason)); err != nil {
		return 0, err
	}
	return len(p), nil
}

type earlyKey struct{}

// withConn lets handling find the connection of a request.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, earlyKey{}, c)
}

// handling notes on a request's connection that a handler is at work.
//
// The connection ends with a request whose length others on the way may read otherwise (RFC 9112,
// section 6.1): what follows it there might be taken for a request. net/http removes the
// Content-Length beside a Transfer-Encoding, and the Transfer-Encoding of HTTP/1.0, before anybody
// sees them. So every request in chunks ends its connection, and every one of HTTP/1.0.
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

// noteState is told by net/http when a connection gets a request, and when it has none any more.
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
