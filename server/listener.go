package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// progressLooks is how often within the idle time a connection that takes no bytes is looked at.
const progressLooks = 8

// patientListener accepts connections whose writes may take as long as they move.
type patientListener struct {
	net.Listener
	idle time.Duration
}

func (l patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &patientConn{Conn: c, idle: l.idle}, nil
}

// patientConn is a connection whose writes fail with a timeout when no byte has moved for the idle
// time. A deadline for a whole write would cut a slow client off: one write may be long, and the
// system reports room for more only when much of a buffer of megabytes has been taken.
type patientConn struct {
	net.Conn
	idle time.Duration

	mu  sync.Mutex
	end time.Time // when writes end whether they move or not; zero: they do not
}

func (c *patientConn) Write(p []byte) (n int, err error) {
	moved, left := time.Now(), unsent(c.Conn)
	for {
		c.setNext(moved.Add(c.idle))
		k, err := c.Conn.Write(p[n:])
		n += k
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now, before := time.Now(), left
		if left = unsent(c.Conn); k > 0 || left < before {
			moved = now
		}
		if now.Sub(moved) >= c.idle || c.hasEnded(now) {
			return n, err
		}
	}
}

// setNext sets the time at which the write under way is looked at again, at the latest at this one.
func (c *patientConn) setNext(latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := time.Now().Add(c.idle / progressLooks)
	if latest.Before(next) {
		next = latest
	}
	if !c.end.IsZero() && c.end.Before(next) {
		next = c.end
	}
	_ = c.Conn.SetWriteDeadline(next) // where there are no deadlines nothing has to move either
}

// hasEnded reports whether the deadline that SetWriteDeadline has set is over.
func (c *patientConn) hasEnded(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.end.IsZero() && !now.Before(c.end)
}

func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *patientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
