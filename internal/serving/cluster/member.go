// Package cluster is what servers that share sessions know of one another: who is there, and for
// how long a server may act for the sessions that it has. It knows neither sessions nor databases.
//
// A server is a member by a lease, which a directory gives and keeps the time of, and which it
// renews all the time. The member counts with its own monotonic clock from before it asked for the
// renewal, and takes the lease to be over earlier than the directory does, so that no other acts
// for a session while the member still does: clocks need not agree, only run about as fast.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// LeaseDefault is how long a server that was lost keeps others from its sessions.
const LeaseDefault = 10 * time.Second

// LeaseMin is the shortest lease: renewals, and the answers to them, have to fit in several times.
const LeaseMin = 100 * time.Millisecond

// Of a lease so many parts are between two renewals, and may pass without one before the member
// takes it to be over.
const (
	beatParts = 5 // a fifth: 2 s of 10
	stopParts = 4 // four fifths: 8 s of 10
)

// ErrLapsed says that the lease could not be renewed in time. It is over until it is.
var ErrLapsed = errors.New("cluster: the lease of this server is over")

// Node is a server among those that share sessions.
type Node struct {
	ID       string // of this run of the server
	Name     string // of all runs of the server
	Addr     string // URL at which the others reach it
	Numerics string // the name of its arithmetic
	Models   []string
	Draining bool // it takes no sessions that it does not have
}

// Directory keeps who is there. Its clock is the only one.
type Directory interface {
	// Renew gives a node its lease, from now on for so long, and tells the nodes whose leases last,
	// itself included, in the order of their names. lapsed says that the node's lease was over, or
	// that it had none.
	Renew(ctx context.Context, self Node, lease time.Duration) (lapsed bool, alive []Node,
		err error)
	// Leave ends the lease of a node, and frees the sessions that it has.
	Leave(ctx context.Context, id string) error
}

// Options of a Member.
type Options struct {
	Self      Node
	Directory Directory
	Lease     time.Duration    // LeaseDefault
	Now       func() time.Time // with a monotonic reading; nil: time.Now
	// is told when the lease is over, and when it is there again; nil: nobody
	Report func(error)
}

// Member is this server among those that share sessions.
type Member struct {
	directory Directory
	lease     time.Duration
	now       func() time.Time
	report    func(error)
	stop      context.CancelFunc
	stopped   chan struct{}
	renewing  sync.Mutex // one renewal at a time, so that none is overtaken by an older one

	mu struct {
		sync.Mutex
		self  Node
		sent  time.Time // when the last renewal that was answered was asked for
		term  uint64    // grows whenever the lease was over
		alive []Node
		told  bool // that the lease is over
	}
}

// Join makes a server a member. Leave must follow.
func Join(ctx context.Context, o Options) (*Member, error) {
	m := &Member{
		directory: o.Directory, lease: cmp.Or(o.Lease, LeaseDefault), now: o.Now, report: o.Report,
		stopped: make(chan struct{}),
	}
	if m.lease < LeaseMin {
		return nil, fmt.Errorf("cluster: a lease of %v, expected at least %v", m.lease, LeaseMin)
	}
	if m.now == nil {
		m.now = time.Now
	}
	if m.report == nil {
		m.report = func(error) {}
	}
	m.mu.self = o.Self
	if err := m.Renew(ctx); err != nil {
		return nil, fmt.Errorf("cluster: joining: %w", err)
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	go m.beat(beating)
	return m, nil
}

func (m *Member) beat(ctx context.Context) {
	defer close(m.stopped)
	ticks := time.NewTicker(m.Beat())
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		err := m.Renew(ctx)
		if ctx.Err() == nil {
			m.tell(err)
		}
	}
}

// Renew renews the lease at once, as the member does by itself again and again. What is not
// answered in half of the lease's time has failed.
func (m *Member) Renew(ctx context.Context) error {
	m.renewing.Lock()
	defer m.renewing.Unlock()
	asking, cancel := context.WithTimeout(ctx, m.lease/2)
	defer cancel()
	m.mu.Lock()
	self := m.mu.self
	m.mu.Unlock()
	sent := m.now()
	lapsed, alive, err := m.directory.Renew(asking, self, m.lease)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if lapsed || m.lapsedLocked() {
		m.mu.term++
	}
	m.mu.sent, m.mu.alive = sent, alive
	return nil
}

// Look makes sure that Alive is not older than LeaseMin, if the directory can be asked.
func (m *Member) Look(ctx context.Context) {
	m.mu.Lock()
	fresh := m.now().Sub(m.mu.sent) < LeaseMin
	m.mu.Unlock()
	if !fresh {
		_ = m.Renew(ctx)
	}
}

// tell reports that the lease is over, once, and that it is there again.
func (m *Member) tell(err error) {
	over := m.Err() != nil
	m.mu.Lock()
	before := m.mu.told
	m.mu.told = over
	m.mu.Unlock()
	switch {
	case over && !before:
		m.report(fmt.Errorf("%w: %w", ErrLapsed, err))
	case !over && before:
		m.report(errors.New("cluster: the lease of this server was renewed"))
	}
}

func (m *Member) lapsedLocked() bool {
	return m.now().Sub(m.mu.sent) >= m.Beat()*stopParts
}

// Err is ErrLapsed while the server must not act for its sessions; nil while it may.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lapsedLocked() {
		return ErrLapsed
	}
	return nil
}

// Term grows whenever the lease was over: what others may have taken since a term began is
// another's in the next.
func (m *Member) Term() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.term
}

// Self is the server itself.
func (m *Member) Self() Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.self
}

// Alive are the nodes whose leases lasted when the server renewed its own, itself included.
func (m *Member) Alive() []Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.alive
}

// Beat is the time between two renewals, after which all others know what this server has told.
func (m *Member) Beat() time.Duration { return m.lease / beatParts }

// Drain tells the others at once that this server takes no more sessions.
func (m *Member) Drain(ctx context.Context) error {
	m.mu.Lock()
	m.mu.self.Draining = true
	m.mu.Unlock()
	return m.Renew(ctx)
}

// Leave ends the membership: the sessions that the server still has are free.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	<-m.stopped
	if err := m.directory.Leave(ctx, m.Self().ID); err != nil {
		return fmt.Errorf("cluster: leaving: %w", err)
	}
	return nil
}
