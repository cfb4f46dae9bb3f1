package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/session/disk"
	"github.com/lmserve/lmserve/internal/session/lifecycle"
	"github.com/lmserve/lmserve/internal/session/registry"
	"github.com/lmserve/lmserve/internal/session/scheduler"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// host is what the sessions of a Manager share.
type host struct {
	store     sessionlog.Store
	lease     *lease
	budget    *budget.Budget[*session]
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
}

// session is a session as it lives in this process, hot (its stream is in memory) or cold. It owns
// its claim (claim.go), its stream (state.go), its snapshots (snapshots.go), and what follows it
// (followers.go, watchers.go).
// Three things guard its parts, always taken in this order: feeding, state, mu.
type session struct {
	host    *host
	model   *servedModel // nil: it is not served, or not known
	head                 // what noteHeadLocked takes over changes under state and mu, the rest never
	entry   *registry.Entry[*session]
	memory  *budget.Account[*session]
	deleted atomic.Bool

	maxOwned int      // sessions that the owner of a session that is being made may have; 0: any number
	watchers watchers // those who are told of what is fed

	asked atomic.Int32 // requests at work on it, the feeding of a shadow by the server not among them

	// feeding holds one token while a request feeds the session: only that request moves the offset.
	// It is held for the length of the request. Those that wait get the token in the order they came.
	feeding chan struct{}
	queued  atomic.Int32 // requests that wait for feeding

	// state holds one token while a chunk, or a completion, is at work on the stream. It is a
	// channel so that waiting can be given up; those that wait get the token in the order they
	// came.
	state      chan struct{}
	weights    *model.Model   // of model, as long as memory has a state's; nil: there are none
	stream     *stream.Stream // nil: cold
	paused     *restoration   // of a cold session: to be continued; else nil
	rms        float64        // root mean square of the fast weights
	replayCost time.Duration  // computing since the last snapshot: what a recovery would repeat
	snapshotAt time.Duration  // the replayCost at which a snapshot is taken; 0: as the rules say

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

// linesFrom is the offset from which on the session has lines; nil if it has none.
func (s *session) linesFrom() *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LinesFrom
}

// hasLabels says whether a session has all of the labels.
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

// markUnusableLocked ends the use of a session whose state gives numbers that are not finite:
// whatever it is fed, it does not recover from them. The session stays as the store has it, and can
// be deleted. The error is an *UnusableError.
func (s *session) markUnusableLocked(why error) error {
	s.mu.Lock()
	s.mu.bad = why
	s.mu.Unlock()
	s.dropLocked()
	s.watchers.end(s.unusable())
	return s.unusable()
}

// alive says whether the session was deleted under a request.
func (s *session) alive() error {
	if s.deleted.Load() {
		return ErrNotFound
	}
	return nil
}

// end releases the session in memory; the store is untouched.
func (s *session) end() {
	s.deleted.Store(true)
	s.watchers.end(ErrNotFound)
	s.memory.Close()
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
