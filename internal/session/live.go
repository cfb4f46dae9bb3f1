package session

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/session/registry"
	"github.com/lmserve/lmserve/internal/session/scheduler"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// liveSession is a session as it lives in this process, hot (its stream is in memory) or cold.
// Three things guard its parts, always taken in this order: feeding, state, mu.
type liveSession struct {
	model   *servedModel // nil: it is not served, or not known
	head                 // what noteHeadLocked takes over changes under state and mu, the rest never
	entry   *registry.Entry[*liveSession]
	memory  *budget.Account[*liveSession]
	deleted atomic.Bool

	most     int      // sessions that the owner of a session that is being made may have; 0: any number
	watchers watchers // those who are told of what is fed

	asked atomic.Int32 // requests at work on it, the feeding of a shadow by the server not among them

	// feeding holds one token while a request feeds the session: only that request moves the offset.
	// It is held for the length of the request. Those that wait get the token in the order they came.
	feeding chan struct{}
	queued  atomic.Int32 // requests that wait for feeding

	// state holds one token while a chunk, or a completion, is at work on the stream. It is a
	// channel so that waiting can be given up; those that wait get the token in the order they
	// came.
	state   chan struct{}
	weights *model.Model   // of model, as long as memory has a state's; nil: there are none
	stream  *stream.Stream // nil: cold
	begun   *recovery      // of a cold session: a recovery that was given up, to go on from; else nil
	rms     float64        // root mean square of the fast weights
	replay  time.Duration  // computing since the last snapshot: what a recovery would repeat
	due     time.Duration  // the replay at which a snapshot is taken; 0 is that of Options.apart

	mu struct {
		sync.Mutex
		seen    progress
		epoch   uint64   // under which the store lets the session be written; 0: not known
		claimed bool     // the epoch is that of a claim of this Manager; changes under state
		term    uint64   // of the lease under which it was claimed, see sharing
		stale   bool     // what was seen may not be what the store has
		bad     error    // why the session cannot be used; nil if it can
		again   Recovery // of begun, for those who ask; of 0 bytes: there is none

		following following
	}
}

// recovery is a stream on its way from a snapshot to the end of the log, between two chunks.
type recovery struct {
	stream   *stream.Stream
	from     int64 // the offset of the snapshot
	exact    bool  // it is computed in the arithmetic of the log: it comes to the totals there
	reported bool  // that it does not was reported
}

// newSession makes a cold session that is in no registry yet.
func newSession(k storedSession, accounts *budget.Budget[*liveSession]) *liveSession {
	s := &liveSession{
		model: k.model, head: k.head, feeding: make(chan struct{}, 1), state: make(chan struct{}, 1),
	}
	s.mu.seen, s.mu.epoch, s.mu.bad = k.seen, k.epoch, k.bad
	s.memory = accounts.OpenOn(s.model.base(), s)
	s.entry = registry.NewEntry(s.ID, s.Owner, s.Name, s.TTL, k.lastUsed, s)
	return s
}

// lock waits for the session's state; the context ends the wait.
func (s *liveSession) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.state <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeTurn waits until nobody else feeds the session, at most so long; then the error is ErrBusy.
// The context ends the wait. What ends the turn takes the token out of feeding.
func (s *liveSession) takeTurn(ctx context.Context, wait time.Duration) error {
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

// tryLock locks the state if nobody has to be waited for.
func (s *liveSession) tryLock() bool {
	select {
	case s.state <- struct{}{}:
		return true
	default:
		return false
	}
}

// unlock ends what lock has begun: from now on the stream may be dropped from memory.
func (s *liveSession) unlock() {
	<-s.state
	s.memory.Rest()
}

// job is what the session wants a worker for. The work for a shadow is behind all other, unless
// somebody asks for the shadow itself: then what it is being fed is ahead of that, and no less urgent.
func (s *liveSession) job() scheduler.Job {
	return scheduler.Job{
		Key: s.Owner, Session: s.ID, Model: s.weights, Chunk: s.Settings.Chunk,
		Behind: s.shadowOf() != "" && s.asked.Load() == 0,
	}
}

// settleLocked ends the chunk, which is full. If the update that follows is to be measured, norms
// are what it has made of the fast weights; nil where there are none.
func (s *liveSession) settleLocked(
	w *stream.Worker, measured bool,
) (settled stream.Settled, norms []stream.BranchNorm, took time.Duration) {
	begun := time.Now()
	if measured {
		settled, norms = w.SettleMeasured(s.stream)
	} else {
		settled = w.Settle(s.stream)
	}
	s.rms = s.stream.FastRMS()
	took = time.Since(begun)
	s.replay += took
	return settled, norms, took
}

// publishLocked shows callers where the stream is.
func (s *liveSession) publishLocked() {
	p := progressOf(s.stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seen = p
}

// stateLocked is the stream that a snapshot can be taken of, which may be that of a recovery; nil
// if there is none. A recovery in another arithmetic is no state of the session before it has
// ended.
func (s *liveSession) stateLocked() *stream.Stream {
	if s.stream == nil && s.begun != nil && s.begun.exact {
		return s.begun.stream
	}
	return s.stream
}

// dueLocked reports whether a recovery from the last snapshot would repeat too much, which is most
// unless a snapshot has failed.
func (s *liveSession) dueLocked(most time.Duration) bool { return s.replay >= cmp.Or(s.due, most) }

// dropLocked makes the session cold.
func (s *liveSession) dropLocked() {
	s.weights, s.stream, s.begun = nil, nil, nil
	s.noteRecovery(Recovery{})
	s.memory.Release()
}

// noteRecovery shows callers how far a recovery has come; one of 0 bytes is none.
func (s *liveSession) noteRecovery(r Recovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.again = r
}

// forsakeLocked makes an end of what this Manager took the session to be, because somebody else may
// have written to it: the next request claims the session anew and reads what there is.
func (s *liveSession) forsakeLocked() {
	s.dropLocked()
	s.forsakeClaim()
}

// forsakeClaim is the part of forsakeLocked that needs no lock on the state.
func (s *liveSession) forsakeClaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.claimed, s.mu.stale = false, true
}

// claimedLocked notes a claim of this Manager, and what it has found.
func (s *liveSession) claimedLocked(found sessionlog.Session) {
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.claimed, s.mu.stale, s.mu.seen = found.Epoch, true, false, seen
}

// claimIn notes the term of the lease that a claim is in force in.
func (s *liveSession) claimIn(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.term, s.mu.stale = term, false
}

// found notes what the store has told of a session without a claim: its epoch, and why it cannot be
// used, if it cannot.
func (s *liveSession) found(epoch uint64, bad error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch, s.mu.bad = epoch, bad
}

// saw notes what the store has, without a claim to it.
func (s *liveSession) saw(found sessionlog.Session) {
	seen := s.progressAt(found)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stale {
		s.mu.seen = seen
	}
}

// noteHeadLocked takes over what can change in the head of a session.
func (s *liveSession) noteHeadLocked(h *head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Numerics, s.LinesFrom, s.ByLine = h.Numerics, h.LinesFrom, h.ByLine
	s.Name, s.Labels, s.TTL, s.ShadowOf = h.Name, h.Labels, h.TTL, h.ShadowOf
}

func (s *liveSession) isClaimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.claimed
}

// isClaimedIn reports whether the session was claimed in a term of the lease.
func (s *liveSession) isClaimedIn(term uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.claimed && s.mu.term == term
}

// linesFrom is the offset from which on the session has lines; nil if it has none.
func (s *liveSession) linesFrom() *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.LinesFrom
}

// isStale reports whether what was seen of the session may not be what the store has.
func (s *liveSession) isStale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stale
}

// epoch is that of the last claim this Manager knows of, 0 if it knows of none.
func (s *liveSession) epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch
}

func (s *liveSession) seen() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.seen
}

// checkOffset compares the session's offset with the one that a caller expects; nil expects none.
func checkOffset(s *liveSession, want *int64) error {
	if have := s.seen().offset; want != nil && *want != have {
		return &OffsetError{Have: have, Want: *want}
	}
	return nil
}

// unusable says why the session cannot be used, nil if it can.
func (s *liveSession) unusable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.bad == nil {
		return nil
	}
	return &UnusableError{ID: s.ID, Err: s.mu.bad}
}

// condemnLocked makes an end of the use of a session whose state gives numbers that are not finite:
// whatever it is fed, it does not recover from them. The session stays as the store has it, and can
// be deleted. The error is an *UnusableError.
func (s *liveSession) condemnLocked(why error) error {
	s.mu.Lock()
	s.mu.bad = why
	s.mu.Unlock()
	s.dropLocked()
	s.watchers.end(s.unusable())
	return s.unusable()
}

// alive says whether the session was deleted under a request.
func (s *liveSession) alive() error {
	if s.deleted.Load() {
		return ErrNotFound
	}
	return nil
}

// isGone says whether a write has failed because the session was deleted meanwhile. The store deletes
// it before the session knows.
func (s *liveSession) isGone(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, sessionlog.ErrNotFound) || s.alive() != nil
}

// end makes an end of the session in memory; what the store has of it is not its concern.
func (s *liveSession) end() {
	s.deleted.Store(true)
	s.watchers.end(ErrNotFound)
	s.memory.Close()
}

// info describes the session to a caller. memory is what the session's account has.
func (s *liveSession) info(who Caller, lastUsed time.Time, memory int64) Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.head.info(who, s.mu.seen)
	i.LastUsed, i.MemoryBytes, i.Err = lastUsed, memory, s.mu.bad
	i.Words = s.model != nil && s.model.OfWords()
	if again := s.mu.again; again.Of > 0 {
		i.Recovery = &again
	}
	return i
}
