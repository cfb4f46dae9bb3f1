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

// Lease lets this server act for the sessions that it has claimed in a store that others share.
type Lease interface {
	// Err says why this server must not act for them now; nil while it may.
	Err() error
	// Term grows whenever the lease was over: claims of an earlier term may be another's by now.
	Term() uint64
}

// ownLease is the Lease on a store that no other server has: it is always in force.
type ownLease struct{}

func (ownLease) Err() error   { return nil }
func (ownLease) Term() uint64 { return 0 }

// lease is the Lease of a Manager, and whether it gives its sessions up.
type lease struct {
	Lease
	own     bool        // the store is this Manager's alone
	leaving atomic.Bool // the server hands its sessions over: it claims and makes none
}

// snapshotRules say when snapshots of a session are taken, and how many stay.
type snapshotRules struct {
	max    int           // snapshots that a session keeps for forks, beside those for recovery
	apart  time.Duration // computing between two of them
	rarest time.Duration // computing between two of a session that has as many as it may
	// slots holds a token for every snapshot being written or read, which takes the memory of a
	// compressor.
	slots chan struct{}
}

// following is what a session knows of its shadows, or a shadow of what it follows. The sessions at
// both ends are locked one after the other, the one that is followed first.
type following struct {
	shadows []*session     // that follow the session
	of      *session       // that the session follows; nil: none, or it is not there
	running bool           // the follower is at work on it
	turn    sync.WaitGroup // done when the follower neither has nor waits for the turn to feed it
	more    bool           // and has more to do
	stalled error          // why the follower has given up for now
	rest    *time.Timer    // after which it tries again; nil: it never had to
	last    *Comparison    // in a shadow
}

// clock tells the time of what sessions store and of when they expire. Tests set read.
type clock struct{ read func() time.Time }

// now returns the time, or the nearest one of the years 1970 to 9999. Exports have no others, and
// neither has the JSON of answers.
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
	// claimed is called with a session that was claimed: its head is the store's, which another may
	// have changed, or a request that was not told so.
	claimed func(*session)
	// gone is called with a session that the store has no more, because another server that shares
	// the store has deleted it.
	gone func(*session)
	// grown is called with a session that has got text.
	grown func(*session)
}

// session is a session in this process, hot (its stream is in memory) or cold. Its parts are its
// claim (claim.go, write.go), its stream (state.go, recovery.go), its snapshots (snapshots.go), and
// what follows it (followers.go, watchers.go). Three things guard them, always taken in this order:
// feeding, state, mu.
type session struct {
	host    *host
	model   *servedModel // nil: it is not served, or not known
	head                 // what noteHeadLocked takes over changes under state and mu
	entry   *registry.Entry[*session]
	memory  *budget.Account[*session]
	deleted atomic.Bool

	maxOwned int      // while it is made: sessions that its owner may have; 0: any number
	watchers watchers // those who are told of what is fed

	asked atomic.Int32 // requests at work on it, without those of the server for a shadow

	// feeding holds one token while a request feeds the session: only that request moves the
	// offset. It is held for the length of the request. Those that wait get the token in the order
	// they came.
	feeding chan struct{}
	queued  atomic.Int32 // requests that wait for feeding
	// the offset behind the last delivery, where a line ends; guarded by feeding
	wholeTo int64

	// state holds one token while a chunk, or a completion, is at work on the stream. It is a
	// channel so that waiting can be given up; those that wait get the token in the order they
	// came.
	state chan struct{}
	// of model, as long as memory has a state's; nil: there are none
	weights        *model.Model
	stream         *stream.Stream    // nil: cold
	paused         *restoration      // of a cold session: to be continued; else nil
	suggester      *stream.Suggester // of stream; nil: nothing was suggested yet
	suggesterBytes int64             // that memory has of it, as of the state
	rms            float64           // root mean square of the fast weights
	// computing since the last snapshot: what a recovery would repeat
	replayCost time.Duration
	snapshotAt time.Duration // the replayCost at which a snapshot is taken; 0: as the rules say

	mu struct {
		sync.Mutex
		seen     progress
		epoch    uint64   // under which the store lets the session be written; 0: not known
		claimed  bool     // the epoch is that of a claim of this Manager; changes under state
		term     uint64   // of the lease under which it was claimed
		stale    bool     // what was seen may not be what the store has
		bad      error    // why the session cannot be used; nil if it can
		recovery Recovery // how far paused is, for those who ask; of 0 bytes: there is none

		following following
	}
}

// newSession makes a cold session that is in no registry yet.
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

// takeTurn waits until nobody else feeds the session, at most so long; then the error is ErrBusy.
// The context ends the wait. What ends the turn takes the token out of feeding.
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

// troubleWords is the list of words of trouble by which the session's lines are rated; "": none.
func (s *session) troubleWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.TroubleWords
}

// linesFrom is the offset from which on the session has lines; nil if it has none.
func (s *session) linesFrom() *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LinesFrom
}

// shadowOf is the id of the session whose shadow this is; "": it is none.
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

// checkOffset compares the session's offset with the one that a caller expects; nil expects none.
func checkOffset(s *session, want *int64) error {
	if have := s.seen().offset; want != nil && *want != have {
		return &OffsetError{Have: have, Want: *want}
	}
	return nil
}

// info describes the session to a caller. memory is what the session's account has.
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

// unusable says why the session cannot be used, nil if it can.
func (s *session) unusable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.bad == nil {
		return nil
	}
	return &UnusableError{ID: s.ID, Err: s.mu.bad}
}

// alive says whether the session was deleted under a request.
func (s *session) alive() error {
	if s.deleted.Load() {
		return ErrNotFound
	}
	return nil
}

// noteRecovery shows callers how far a recovery has come; one of 0 bytes is none.
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

// job is what the session wants a worker for. The work for a shadow is behind all other, unless
// somebody asks for the shadow itself: then what it is being fed is ahead of that, and no less
// urgent.
func (s *session) job() scheduler.Job {
	return scheduler.Job{
		Key: s.Owner, Session: s.ID, Model: s.weights, Chunk: s.Settings.Chunk,
		Behind: s.shadowOf() != "" && s.asked.Load() == 0,
	}
}

// publishLocked shows callers where the stream is.
func (s *session) publishLocked() { s.noteSeen(progressOf(s.stream)) }
