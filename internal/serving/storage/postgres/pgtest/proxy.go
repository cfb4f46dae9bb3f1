package pgtest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
)

// Fault is a simulated failure of a request or of its answer. Every fault cuts the connection.
type Fault int32

const (
	None        Fault = iota
	LoseRequest       // the request does not reach the server
	LoseAnswer        // the request is carried out, and the answer is lost
	// the request reaches the server when Proxy.Deliver is called, and the answer is lost
	Late
	// the next new connection gets no answer, and stays open
	Ignore
)

// Proxy passes data between clients and a PostgreSQL server, and can make the connection fail.
type Proxy struct {
	server string
	dir    string
	l      net.Listener
	wait   sync.WaitGroup
	next   atomic.Int32
	skip   atomic.Int32
	frozen atomic.Int32 // number of calls of Freeze
	late   chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool
	held  chan struct{} // nil unless Hold was called; closed by Release
}

// NewProxy creates a proxy for a server, on a Unix socket. The proxy ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	dir, err := program.Folder(os.TempDir(), "lmserve-px-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	require.NoError(t, err)
	return newProxy(t, s, l, dir)
}

// NewProxyOn creates a proxy for a server, on a TCP address. The proxy ends with the test.
func NewProxyOn(t testing.TB, s *Server, address string) *Proxy {
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	return newProxy(t, s, l, "")
}

func newProxy(t testing.TB, s *Server, l net.Listener, dir string) *Proxy {
	p := &Proxy{
		server: filepath.Join(s.dir, socket), dir: dir, l: l,
		late: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		p.Release()
		p.Cut()
		p.wait.Wait()
	})
	return p
}

// URL returns the URL under which clients reach a database of the server through the proxy.
func (p *Proxy) URL(database string) string {
	if p.dir == "" {
		return fmt.Sprintf("postgres://%s@%s/%s", role, p.l.Addr(), database)
	}
	return urlOf(p.dir, database)
}

// Hold delays all data in both directions until Release. The connections stay open, as in a network
// failure.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release lets data pass again after Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

func (p *Proxy) pass() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// Cut closes all connections, even while statements run, and returns the number of connections.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	for c := range p.conns {
		_ = c.Close()
	}
	return n
}

// Freeze makes the proxy discard all further data of the present connections, which stay open. New
// connections work. A firewall that forgets its connections has this effect.
func (p *Proxy) Freeze() { p.frozen.Add(1) }

// Next makes a fault happen once. Parameter `after` is the number of requests that first pass
// without a fault; the fault then affects the next request or its answer.
func (p *Proxy) Next(f Fault, after int) {
	p.skip.Store(int32(after) + 1)
	p.next.Store(int32(f))
}

// Deliver sends to the server the request that the fault Late holds back.
func (p *Proxy) Deliver() { p.late <- struct{}{} }

// happens reports whether the proxy must simulate the fault f now. It returns true only once for a
// call of Next.
func (p *Proxy) happens(f Fault) bool {
	return p.skip.Load() <= 0 && p.next.CompareAndSwap(int32(f), int32(None))
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.wait.Go(func() {
			p.serve(c)
			_ = c.Close()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

func (p *Proxy) serve(c net.Conn) {
	if p.next.CompareAndSwap(int32(Ignore), int32(None)) {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	p.pass()
	frozen := p.frozen.Load()
	to, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer to.Close()
	p.wait.Go(func() {
		p.answers(c, to, frozen)
		_ = c.Close()
	})
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		p.skip.Add(-1)
		if err != nil || p.happens(LoseRequest) {
			return
		}
		if p.happens(Late) {
			_ = c.Close()
			<-p.late
			_, _ = to.Write(b[:n])
			time.Sleep(100 * time.Millisecond) // lets the server read the request first
			return
		}
		p.pass()
		if p.frozen.Load() != frozen {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) answers(c, from net.Conn, frozen int32) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || p.happens(LoseAnswer) {
			return
		}
		p.pass()
		if p.frozen.Load() != frozen {
			continue
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}
