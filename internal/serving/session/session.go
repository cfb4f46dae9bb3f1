package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
	"github.com/lmserve/lmserve/internal/serving/session/disk"
	"github.com/lmserve/lmserve/internal/serving/session/lifecycle"
	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Lease tells whether this server may serve the sessions that it has claimed in a shared store.
type Lease interface {
	// Err returns nil while this server may serve its claimed sessions, else the reason why not.
	Err() error
	// Term returns a number that grows each time the lease has lapsed. Another server may have
	// claimed a session that this server claimed in an earlier term.
	Term() uint64
}

// ownLease is the Lease on a store that no other server uses: it never lapses.
type ownLease struct{}

func (ownLease) Err() error   { return nil }
func (ownLease) Term() uint64 { return 0 }

// lease is the Lease of a Manager, and records whether the server is handing over its sessions.
type lease struct {
	Lease
	own     bool
	leaving atomic.Bool
}

// snapshotRules decide when snapshots of a session are taken, and how many are kept.
type snapshotRules struct {
	max    int
	apart  time.Duration
	rarest time.Duration // computing time between snapshots of a session that has max snapshots
	// slots limits how many snapshots are written or read at the same time, because each needs the
	// memory of a compressor.
	slots chan struct{}
}

// following links a session to its shadows, or a shadow to the session that it follows. The lock of
// the followed session is taken before the lock of the shadow.
type following struct {
	shadows []*session
	of      *session // session that this shadow follows; nil if there is none, or if it is gone
	running bool
	turn    sync.WaitGroup
	more    bool
	stalled error
	rest    *time.Timer
	last    *Comparison
}

// clock returns the time for the times that sessions store, and for the expiry of sessions. Tests
// replace the field read.
type clock struct{ read func() time.Time }

// now returns the time, limited to the years 1970 to 9999, because exports and JSON responses
// cannot represent other years.
func (c *clock) now() time.Time {
	now := c.read()
	switch ms := now.UnixMilli(); {
	case ms < 0:
		return time.UnixMilli(0)
	case ms > timeMaxMS:
		return time.UnixMilli(timeMaxMS)
	}
	return now
}

// host contains what all sessions of a Manager share.
type host struct {
	store     storage.Store
	lease     *lease
	budget    *budget.Budget[*session]
	prefixes  *prefixes
	scheduler *scheduler.Scheduler
	life      *lifecycle.Lifecycle
	disk      *disk.Guard
	clock     *clock
	snapshots snapshotRules
	undeleted undeleted
	observer  Observer
	logError  func(error)
	// claimed is called after this server has claimed a session and updated the session's head from
	// the store.
	claimed func(*session)
	// gone is called with a session that the store no longer has, because another server deleted
	// it.
	gone func(*session)
	// grown is called with a session that has new text.
	grown func(*session)
}

// session is a session in this process. It is hot if its stream is in memory, else cold. Files
// contain its parts: its claim (claim.go, write.go), its stream (state.go, recovery.go), its
// snapshots (snapshots.go), and its readers (followers.go, watchers.go). Three locks guard the
// fields, always taken in this order: feeding, state, mu.
type session struct {
	host    *host
	model   *servedModel // nil if the server does not serve the model, or the model is unknown
	head                 // state and mu guard the fields that noteHeadLocked copies
	entry   *registry.Entry[*session]
	memory  *budget.Account[*session]
	deleted atomic.Bool
	// observing orders reports of incidents and the end of the session
	observing sync.Mutex

	maxOwned int // limit on the owner's sessions when this session is created; 0 means no limit
	watchers watchers

	// number of requests that use the session; the server's feeding of a shadow does not count
	asked atomic.Int32

	// feeding contains one token while a request feeds the session. Only this request moves the
	// offset. Waiting requests get the token in order of arrival.
	feeding chan struct{}
	queued  atomic.Int32
	// offset of the end of the last delivery, where a line ends; feeding guards this field
	wholeTo int64

	// state contains one token while a chunk or a completion uses the stream. It is a channel so
	// that a caller can stop waiting. Waiting requests get the token in order of arrival.
	state chan struct{}
	// weights of model while memory is reserved for a state; else nil
	weights        *model.Model
	stream         *stream.Stream    // nil if the session is cold
	paused         *restoration      // unfinished recovery of a cold session; else nil
	suggester      *stream.Suggester // nil before the first suggestion
	suggesterBytes int64             // memory of suggester in bytes, without the state's memory
	rms            float64           // root mean square of the fast weights
	// computing time since the last snapshot, which a recovery would repeat
	replayCost time.Duration
	// value of replayCost at which a snapshot is taken; 0 if the rules decide
	snapshotAt time.Duration

	mu struct {
		sync.Mutex
		seen    progress
		epoch   uint64
		claimed bool
		term    uint64
		stale   bool
		bad     error
		// progress of the unfinished recovery, for callers; Of is 0 if there is none
		recovery Recovery

		following following
	}
}

func newSession(h *host, k storedSession) *session {
	s := &session{
		host: h, model: k.model, head: k.head,
		feeding: make(chan struct{}, 1), state: make(chan struct{}, 1),
	}
	s.mu.seen, s.mu.epoch, s.mu.bad = k.seen, k.epoch, k.bad
	s.memory = h.budget.OpenOn(s.model.base(), s)
	s.entry = registry.NewEntry(s.ID, s.Owner, s.Name, s.TTL, k.lastUsed, s)
	return s
}

// takeTurn waits for the right to feed the session. The error is ErrBusy after the duration wait,
// or if too many requests wait. It is another error if the context ends. To end its turn, the
// caller takes the token out of feeding.
func (s *session) takeTurn(ctx context.Context, wait time.Duration) error {
	select {
	case s.feeding <- struct{}{}:
		return nil
	default:
	}
	if wait <= 0 {
		return ErrBusy
	}
	defer s.queued.Add(-1)
	if s.queued.Add(1) > WaitingMax {
		return ErrBusy
	}
	patient := time.NewTimer(wait)
	defer patient.Stop()
	select {
	case s.feeding <- struct{}{}:
		return nil
	case <-patient.C:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) seen() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.seen
}

func (s *session) noteSeen(p progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = p
}

// troubleWords returns the session's list of words, such as "error", that contribute to the rating
// of a line; "" if there is none.
func (s *session) troubleWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.TroubleWords
}

// linesFrom returns the offset at which the session's lines begin; nil if the session has no lines.
func (s *session) linesFrom() *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LinesFrom
}

func (s *session) shadowOf() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ShadowOf
}

func (s *session) shadows() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.following.shadows)
}

func (s *session) hasLabels(labels []Label) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hasLabels(s.Labels, labels)
}

// checkOffset returns an *OffsetError if the session's offset is not *want. A nil want accepts any
// offset.
func checkOffset(s *session, want *int64) error {
	if have := s.seen().offset; want != nil && *want != have {
		return &OffsetError{Have: have, Want: *want}
	}
	return nil
}

func (s *session) info(who Caller, lastUsed time.Time, memory int64) Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.head.info(who, s.mu.seen)
	i.LastUsed, i.MemoryBytes, i.Err = lastUsed, memory, s.mu.bad
	i.Words = s.model != nil && s.model.OfWords()
	if recovery := s.mu.recovery; recovery.Of > 0 {
		i.Recovery = &recovery
	}
	return i
}

func (s *session) unusable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.bad == nil {
		return nil
	}
	return &UnusableError{ID: s.ID, Err: s.mu.bad}
}

// alive returns an error if the session was deleted during a request.
func (s *session) alive() error {
	if s.deleted.Load() {
		return ErrNotFound
	}
	return nil
}

// noteRecovery publishes the progress of a recovery. The zero Recovery means that there is none.
func (s *session) noteRecovery(r Recovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.recovery = r
}

func (s *session) dropLocked() {
	s.weights, s.stream, s.paused = nil, nil, nil
	s.suggester, s.suggesterBytes = nil, 0
	s.noteRecovery(Recovery{})
	s.memory.Release()
}

// end releases the session in memory, and leaves the store unchanged.
func (s *session) end() {
	s.deleted.Store(true)
	s.watchers.end(ErrNotFound)
	s.observeEnd()
	s.memory.Close()
	s.host.prefixes.forget(s.ID)
}

// job returns the session's job for the scheduler. Feeding a shadow has the lowest priority, unless
// a request for the shadow waits.
func (s *session) job() scheduler.Job {
	return scheduler.Job{
		Key: s.Owner, Session: s.ID, Model: s.weights, Chunk: s.Settings.Chunk,
		Behind: s.shadowOf() != "" && s.asked.Load() == 0,
	}
}

func (s *session) publishLocked() { s.noteSeen(progressOf(s.stream)) }
