// Package cluster tells servers that share sessions which servers are alive, and how long a server
// may act for its sessions. The package depends neither on sessions nor on databases.
//
// Each server has a lease, which a directory grants and the server renews regularly. The server
// measures its lease with its own monotonic clock, from the moment before it sends a renewal. The
// server treats the lease as lapsed earlier than the directory does. So no other server acts for a
// session while its owner still does. The clocks of two servers need not agree, but must run at
// about the same speed.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// LeaseDefault is the default lease. For this time, the sessions of a lost server are blocked for
// other servers.
const LeaseDefault = 10 * time.Second

// LeaseMin is the shortest lease: it must leave time for several renewals and their answers.
const LeaseMin = 100 * time.Millisecond

// A member renews its lease beatParts times in the time of a lease. After stopParts of these
// intervals without a renewal, the member treats the lease as lapsed.
const (
	beatParts = 5 // one renewal every 2 s for a lease of 10 s
	stopParts = 4 // lapsed after 8 s for a lease of 10 s
)

// ErrLapsed says that the lease could not be renewed in time. The lease stays lapsed until the next
// renewal.
var ErrLapsed = errors.New("cluster: the lease of this server has lapsed")

// errPaused is the reason for a lapse that the server notices only at a successful renewal.
var errPaused = errors.New("the renewal was late: perhaps the server was paused")

// Node is one of the servers that share sessions.
type Node struct {
	ID       string // id of this run of the server
	Name     string // name of the server, equal in all its runs
	Addr     string // URL at which other servers reach this server
	Numerics string // name of the server's arithmetic, such as float32-fma
	Models   []string
	Draining bool // the server claims no more sessions
}

// Directory keeps the list of live nodes. Its clock decides which leases are valid.
type Directory interface {
	// Renew grants a node its lease, from now on. It returns the nodes with valid leases, including
	// the node itself, sorted by name. lapsed says that the node's lease had lapsed, or that the
	// node had no lease.
	Renew(ctx context.Context, self Node, lease time.Duration) (lapsed bool, alive []Node,
		err error)
	// Leave ends the lease of a node, and releases its sessions.
	Leave(ctx context.Context, id string) error
}

// Options configure a Member.
type Options struct {
	Self      Node
	Directory Directory
	Lease     time.Duration    // 0 means LeaseDefault
	Now       func() time.Time // must have a monotonic reading; nil means time.Now
	// gets ErrLapsed when the lease lapses, and a message when the lease is renewed; may be nil
	Report func(error)
}

// Member holds and renews the lease of this server.
type Member struct {
	directory Directory
	lease     time.Duration
	now       func() time.Time
	report    func(error)
	stop      context.CancelFunc
	stopped   chan struct{}
	// renewing holds an element during a renewal. Its capacity is 1, so that no renewal overtakes a
	// newer one.
	renewing chan struct{}

	mu struct {
		sync.Mutex
		self  Node
		sent  time.Time // when the last answered renewal was sent
		term  uint64    // grows each time the lease has lapsed
		alive []Node
		told  bool // whether a lapse of the lease was reported
		// term at the last call of tell
		toldTerm uint64
	}
}

// Join makes a server a member of the cluster. The caller must call Leave.
func Join(ctx context.Context, o Options) (*Member, error) {
	m := &Member{
		directory: o.Directory, lease: cmp.Or(o.Lease, LeaseDefault), now: o.Now, report: o.Report,
		stopped: make(chan struct{}), renewing: make(chan struct{}, 1),
	}
	if m.lease < LeaseMin {
		return nil, fmt.Errorf("cluster: the lease lasts %v, expected at least "+
			"%v", m.lease, LeaseMin)
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
	m.mu.toldTerm = m.mu.term
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

// Renew renews the lease at once; the member also does this regularly. Renew fails if the directory
// does not answer within half of the lease's time.
func (m *Member) Renew(ctx context.Context) error {
	return m.renewIf(ctx, func() bool { return true })
}

// renewIf waits for a renewal under way. It then renews the lease, if the function due still
// returns true.
func (m *Member) renewIf(ctx context.Context, due func() bool) error {
	select {
	case m.renewing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.renewing }()
	if !due() {
		return nil
	}
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

// Look renews the lease if the result of Alive is older than LeaseMin. It ignores errors of the
// directory.
func (m *Member) Look(ctx context.Context) {
	due := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.now().Sub(m.mu.sent) >= LeaseMin
	}
	if due() {
		_ = m.renewIf(ctx, due)
	}
}

// tell reports each lapse of the lease once, and the first renewal after a lapse. If the server was
// paused, only the new term shows that the lease has lapsed.
func (m *Member) tell(err error) {
	over, term := m.Err() != nil, m.Term()
	m.mu.Lock()
	before, lapsed := m.mu.told, over || term != m.mu.toldTerm
	m.mu.told, m.mu.toldTerm = over, term
	m.mu.Unlock()
	if lapsed && !before {
		m.report(fmt.Errorf("%w: %w", ErrLapsed, cmp.Or(err, errPaused)))
	}
	if !over && (before || lapsed) {
		m.report(errors.New("cluster: the lease of this server was renewed"))
	}
}

func (m *Member) lapsedLocked() bool {
	return m.now().Sub(m.mu.sent) >= m.Beat()*stopParts
}

// Err returns ErrLapsed while the server must not act for its sessions, else nil.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lapsedLocked() {
		return ErrLapsed
	}
	return nil
}

// Term grows each time the lease has lapsed. In a new term, other servers may own the sessions that
// this server claimed in an earlier term.
func (m *Member) Term() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.term
}

// Self returns the server's own node.
func (m *Member) Self() Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.self
}

// Alive returns the nodes that had valid leases at the server's last renewal, including the server.
func (m *Member) Alive() []Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.alive
}

// Beat returns the time between two renewals. After this time, all other servers know the server's
// current state.
func (m *Member) Beat() time.Duration { return m.lease / beatParts }

// Drain announces to the other servers at once that this server takes no more sessions.
func (m *Member) Drain(ctx context.Context) error {
	m.mu.Lock()
	m.mu.self.Draining = true
	m.mu.Unlock()
	return m.Renew(ctx)
}

// Leave ends the membership. Other servers can then claim the sessions that this server still has.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	<-m.stopped
	if err := m.directory.Leave(ctx, m.Self().ID); err != nil {
		return fmt.Errorf("cluster: leaving: %w", err)
	}
	return nil
}
