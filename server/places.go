package server

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// placesListener gives connections a limited number of places. Where all are taken, a new
// connection takes the place of the one that has been without a request for the longest time, so
// that those who say nothing lock nobody out; where all have a request, it waits until one has
// none. (The listener of golang.org/x/net/netutil has a limit only: silent connections keep their
// places.)
type placesListener struct {
	net.Listener
	most int

	mu      sync.Mutex
	changed *sync.Cond // a place is free, a connection has no request any more, or the end has come
	taken   int
	idle    list.List // *placedConn without a request, the longest first
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
		_ = c.Close() // nobody will know of it
		return nil, net.ErrClosed
	case l.taken >= l.most:
		longest := l.idle.Front().Value.(*placedConn)
		l.leaveLocked(longest)
		_ = longest.Conn.Close() // whoever reads from it is told
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

// leaveLocked frees the place of a connection, once. l.mu is held.
func (l *placesListener) leaveLocked(c *placedConn) {
	if c.left {
		return
	}
	c.left = true
	l.taken--
	l.workLocked(c)
	l.changed.Signal()
}

// workLocked takes a connection out of those without a request. l.mu is held.
func (l *placesListener) workLocked(c *placedConn) {
	if c.waiting != nil {
		l.idle.Remove(c.waiting)
		c.waiting = nil
	}
}

type placedConn struct {
	net.Conn
	in *placesListener

	left    bool          // guarded by in.mu, as is waiting
	waiting *list.Element // of in.idle; nil: the connection has a request, or has left
}

func (c *placedConn) Close() error {
	c.in.mu.Lock()
	c.in.leaveLocked(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// note is told when the connection gets a request, and when it has none any more.
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
