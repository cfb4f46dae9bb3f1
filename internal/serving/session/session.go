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

// Lease says whether this server may serve the sessions that it has claimed in a store that several
// servers share.
type Lease interface {
	// Err returns nil while this server may serve its claimed sessions, else the reason why not.
	Err() error
	// Term returns a number that grows each time the lease has lapsed. Another server may have
	// claimed a session since this server claimed it in an earlier term.
	Term() uint64
}

// ownLease is the Lease on a store that no other server uses: it never lapses.
type ownLease struct{}

func (ownLease) Err() error   { return nil }
func (ownLease) Term() uint64 { return 0 }

// lease is the Lease of a Manager. It also records whether the server is handing over its sessions.
type lease struct {
	Lease
	own     bool        // no other server uses the store
	leaving atomic.Bool // the server is handing its sessions over; it claims and creates none
}

// snapshotRules decide when snapshots of a session are taken, and how many are kept.
type snapshotRules struct {
	max    int           // snapshots that a session keeps for forks, besides those for recovery
	apart  time.Duration // computing time between two snapshots for forks
	rarest time.Duration // computing time between snapshots of a session that has max snapshots
	// slots holds a token for every snapshot being written or read, because each needs the memory
	// of a compressor.
	slots chan struct{}
}

// following links a session to its shadows, or a shadow to the session that it follows. The lock of
// the followed session is taken before the shadow's.
type following struct {
	shadows []*session     // the shadows of the session
	of      *session       // the session that this one follows; nil if none, or if it is gone
	running bool           // the follower feeds the shadow, or will soon
	turn    sync.WaitGroup // done when the follower neither feeds the shadow nor waits to feed it
	more    bool           // there is more text to feed
	stalled error          // why the follower has stopped for now
	rest    *time.Timer    // starts the next try to feed the shadow; nil if no try has failed
	last    *Comparison
}

// clock returns the time that sessions store and that decides their expiry. Tests replace read.
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

// host is what the sessions of a Manager share.
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

// session is a session in this process, hot (its stream is in memory) or cold. Its parts are its
// claim (claim.go, write.go), its stream (state.go, recovery.go), its snapshots (snapshots.go), and
// its readers (followers.go, watchers.go). Three locks guard them, always taken in this order:
// feeding, state, mu.
type session struct {
	host    *host
	model   *servedModel // nil if the model is not served, or not known
	head                 // state and mu guard the fields that noteHeadLocked copies
	entry   *registry.Entry[*session]
	memory  *budget.Account[*session]
	deleted atomic.Bool

	maxOwned int      // limit on the owner's sessions when this one is created; 0 if none
	watchers watchers // requests that read the session's events

	asked atomic.Int32 // requests that use the session, except feeding of a shadow by the server

	// feeding holds one token while a request feeds the session, from its beginning to its end.
	// Only that request moves the offset. Waiting requests get the token in order of arrival.
	feeding chan struct{}
	queued  atomic.Int32 // requests that wait for feeding
	// offset of the end of the last delivery, where a line ends; guarded by feeding
	wholeTo int64

	// state holds one token while a chunk or a completion uses the stream. It is a channel so that
	// a caller can stop waiting. Waiting requests get the token in order of arrival.
	state chan struct{}
	// weights of model while memory is reserved for a state, else nil
	weights        *model.Model
	stream         *stream.Stream    // nil if the session is cold
	paused         *restoration      // unfinished recovery of a cold session; else nil
	suggester      *stream.Suggester // suggester of stream; nil before the first suggestion
	suggesterBytes int64             // bytes of suggester; the state's bytes do not include them
	rms            float64           // root mean square of the fast weights
	// computing time since the last snapshot, which a recovery would repeat
	replayCost time.Duration
	snapshotAt time.Duration // the replayCost at which a snapshot is taken; 0 if the rules decide

	mu struct {
		sync.Mutex
		seen     progress
		epoch    uint64   // the epoch for writes to the store; 0 if not known
		claimed  bool     // the epoch is from this Manager's claim; changes with state locked
		term     uint64   // term of the lease at the claim
		stale    bool     // seen may differ from the store
		bad      error    // why the session cannot be used, or nil
		recovery Recovery // progress of paused, for callers; Of is 0 if there is none

		following following
	}
}

// newSession returns a cold session that is in no registry yet.
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

// takeTurn waits until no other request feeds the session. It returns ErrBusy after the duration
// wait, or an error when the context ends. The turn ends when the caller takes the token out of
// feeding.
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

// linesFrom returns the offset at which the session's lines begin; nil if it has none.
func (s *session) linesFrom() *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LinesFrom
}

// shadowOf returns the id of the session that this shadow follows; "" if it is no shadow.
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

// checkOffset compares the session's offset with the one that a caller expects. If want is nil, it
// accepts any offset.
func checkOffset(s *session, want *int64) error {
	if have := s.seen().offset; want != nil && *want != have {
		return &OffsetError{Have: have, Want: *want}
	}
	return nil
}

// info describes the session to a caller. memory is the memory charged to the session.
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

// unusable returns why the session cannot be used, or nil.
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

// noteRecovery publishes the progress of a recovery. A progress of 0 bytes means that there is no
// recovery.
func (s *session) noteRecovery(r Recovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.recovery = r
}

// dropLocked makes the session cold.
func (s *session) dropLocked() {
	s.weights, s.stream, s.paused = nil, nil, nil
	s.suggester, s.suggesterBytes = nil, 0
	s.noteRecovery(Recovery{})
	s.memory.Release()
}

// end releases the session in memory; the store is untouched.
func (s *session) end() {
	s.deleted.Store(true)
	s.watchers.end(ErrNotFound)
	s.host.observer.Incidents(SessionRef{ID: s.ID}, nil)
	s.memory.Close()
	s.host.prefixes.forget(s.ID)
}

// job describes the session to the scheduler. Feeding a shadow has the lowest priority, unless a
// request uses the shadow: the request then waits for that feeding.
func (s *session) job() scheduler.Job {
	return scheduler.Job{
		Key: s.Owner, Session: s.ID, Model: s.weights, Chunk: s.Settings.Chunk,
		Behind: s.shadowOf() != "" && s.asked.Load() == 0,
	}
}

// publishLocked shows callers the stream's progress.
func (s *session) publishLocked() { s.noteSeen(progressOf(s.stream)) }
