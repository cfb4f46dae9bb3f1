package server

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// progressLooks is the number of times that a stalled write is checked for progress within the idle
// time.
const progressLooks = 8

// patientListener accepts connections whose writes time out only if they make no progress.
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

// patientConn is a connection whose write times out if no byte is sent for the time idle. A single
// deadline per write would cut off slow clients, because one write may be long. The connection also
// looks at the unsent bytes, because the kernel reports free space in a large buffer late.
type patientConn struct {
	net.Conn
	idle time.Duration

	mu  sync.Mutex
	end time.Time // write deadline that applies despite progress; zero: none
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

// setNext sets the time of the next progress check, at most latest.
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
	_ = c.Conn.SetWriteDeadline(next) // ignore the error: without deadlines no check is needed
}

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
