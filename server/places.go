package server

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// placesListener limits the number of open connections. At the limit, a new connection replaces the
// connection that has been idle longest, so that silent clients lock nobody out. If no connection
// is idle, the new connection waits. LimitListener of golang.org/x/net/netutil never closes idle
// connections.
type placesListener struct {
	net.Listener
	most int

	mu      sync.Mutex
	changed *sync.Cond // signals a free place, an idle connection or a closed listener
	taken   int
	idle    list.List // elements of type *placedConn, longest idle first
	closed  bool
}

func newPlacesListener(l net.Listener, most int) *placesListener {
	p := &placesListener{Listener: l, most: most}
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (l *placesListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken >= l.most && l.idle.Len() == 0 && !l.closed {
		l.changed.Wait()
	}
	switch {
	case l.closed:
		_ = c.Close()
		return nil, net.ErrClosed
	case l.taken >= l.most:
		longest := l.idle.Front().Value.(*placedConn)
		l.leaveLocked(longest)
		_ = longest.Conn.Close()
	}
	l.taken++
	placed := &placedConn{Conn: c, in: l}
	placed.waiting = l.idle.PushBack(placed)
	return placed, nil
}

func (l *placesListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
	return l.Listener.Close()
}

// leaveLocked frees a connection's place, but only the first time. The caller holds l.mu.
func (l *placesListener) leaveLocked(c *placedConn) {
	if c.left {
		return
	}
	c.left = true
	l.taken--
	l.workLocked(c)
	l.changed.Signal()
}

// workLocked removes a connection from the idle list. The caller holds l.mu.
func (l *placesListener) workLocked(c *placedConn) {
	if c.waiting != nil {
		l.idle.Remove(c.waiting)
		c.waiting = nil
	}
}

type placedConn struct {
	net.Conn
	in *placesListener

	left bool // The mutex in.mu guards left and waiting.
	// the connection's element in the idle list; nil while the connection is busy or closed
	waiting *list.Element
}

func (c *placedConn) Close() error {
	c.in.mu.Lock()
	c.in.leaveLocked(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

func (c *placedConn) note(state http.ConnState) {
	l := c.in
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		l.workLocked(c)
	case http.StateIdle:
		if c.waiting == nil && !c.left {
			c.waiting = l.idle.PushBack(c)
			l.changed.Signal()
		}
	case http.StateNew, http.StateHijacked, http.StateClosed:
	}
}
