package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// progressLooks is the number of progress checks within the idle time of a stalled write.
const progressLooks = 8

// patientListener accepts connections whose writes may last as long as they make progress.
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

// patientConn is a connection whose writes time out if no byte moves for the idle time. A single
// deadline for a write would cut off slow clients: a write may be long, and the system reports free
// space only after much of a multi-megabyte buffer has drained.
type patientConn struct {
	net.Conn
	idle time.Duration

	mu  sync.Mutex
	end time.Time // deadline of writes regardless of progress; zero: none
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

// setNext sets the time of the next check on the current write, no later than latest.
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
	_ = c.Conn.SetWriteDeadline(next) // without deadlines nothing needs checking
}

// hasEnded reports whether the deadline from SetWriteDeadline has passed.
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
