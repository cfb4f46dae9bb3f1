package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/internal/session/registry"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// This file is what a Manager does otherwise where other servers share its store. The registry then
// has the sessions that this server has come to know, and the store those that there are. What is
// known of a session is true as long as the server holds the session: it has claimed the session in
// the term of its lease that lasts. Before anything else is said or done of a session, the store is
// asked.

// Lease lets this server act for the sessions that it has claimed in a store that others share.
type Lease interface {
	// Err says why this server must not act for them now; nil while it may.
	Err() error
	// Term grows whenever the lease was over: claims of an earlier term may be another's by now.
	Term() uint64
}

const (
	tendTime     = 2 * time.Second // between two looks after what nobody asks for
	tendBatch    = 100             // sessions that are deleted in one look
	handOverMost = 16              // sessions that are handed over at once
	handOverKeep = time.Second     // for a snapshot, which the next server can do without
)

// sharing is what there is of the other servers; nil where a Manager has its store alone.
type sharing struct {
	store   sessionlog.Shared
	lease   Lease
	leaving atomic.Bool // the server hands its sessions over: it claims and makes none
}

// newSharing makes the sharing of a store; nil without a lease.
func newSharing(o Options) (*sharing, error) {
	if o.Lease == nil {
		return nil, nil
	}
	store, ok := o.Store.(sessionlog.Shared)
	if !ok {
		return nil, errors.New("session: a lease is given, expected a store that servers can share")
	}
	return &sharing{store: store, lease: o.Lease}, nil
}

// err says why the server must not act for any session now.
func (sh *sharing) err() error {
	if sh == nil {
		return nil
	}
	if err := sh.lease.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// mayClaim says why the server must not take a session that it does not have.
func (sh *sharing) mayClaim() error {
	if sh != nil && sh.leaving.Load() {
		return fmt.Errorf("%w: this one hands its sessions over", ErrElsewhere)
	}
	return sh.err()
}

// term is that of the lease; 0 without one.
func (sh *sharing) term() uint64 {
	if sh == nil {
		return 0
	}
	return sh.lease.Term()
}

// holds reports whether what this server knows of a session is true: nobody else can have changed it.
func (sh *sharing) holds(s *liveSession) bool {
	return s.isClaimedIn(sh.term()) && sh.err() == nil
}

// stillHolds says why what this server goes on to say of a session may be old.
func (sh *sharing) stillHolds(s *liveSession) error {
	switch err := sh.err(); {
	case sh == nil || err != nil:
		return err
	case !sh.holds(s):
		return fmt.Errorf("%w: the lease of this server was over meanwhile", ErrElsewhere)
	}
	return nil
}

// TermsOf is what a store that servers share has to know of a session's head; of one that cannot be
// read it is that there is one.
func TermsOf(text []byte) sessionlog.Terms {
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return sessionlog.Terms{Complete: true}
	}
	t := sessionlog.Terms{
		Owner: h.Owner, Name: h.Name, Complete: h.Complete, TTL: h.TTL, Model: h.Model.Hash,
	}
	if len(h.Numerics) > 0 {
		t.Numerics = h.numerics().Name
	}
	return t
}

// Holds reports whether this server has a session, by its id, so that requests for the session are
// for this server.
func (mg *Manager) Holds(id string) bool {
	sh := mg.roster.sharing
	if sh == nil {
		return true
	}
	e := mg.roster.registry.Find(id, time.Time{})
	return e != nil && sh.holds(e.Value)
}

// entry is the place of a session in the registry. Where servers share the store, the store knows the
// names, and a session has an end here only while it is held.
func (ro *roster) entry(s *liveSession, lastUsed time.Time) *registry.Entry[*liveSession] {
	if ro.sharing == nil {
		return s.entry
	}
	return registry.NewEntry(s.ID, s.Owner, "", 0, lastUsed, s)
}

// known is a session that is known here, expired or not; nil if there is none.
func (ro *roster) known(id string) *liveSession {
	if e := ro.registry.Find(id, time.Time{}); e != nil {
		return e.Value
	}
	return nil
}

// findShared finds a session where servers share the store: here, if this server holds it, else in
// the store.
func (ro *roster) findShared(who Caller, text string) (*liveSession, error) {
	if err := ro.sharing.err(); err != nil {
		return nil, err
	}
	held := func(id string) (s *liveSession, err error) {
		if s = ro.known(id); s == nil || !ro.sharing.holds(s) {
			return nil, nil
		}
		if !who.sees(s.Owner) || ro.registry.Find(id, ro.clock.now()) == nil {
			return nil, ErrNotFound
		}
		return s, nil
	}
	if s, err := held(text); s != nil || err != nil {
		return s, err
	}
	ctx, term := context.Background(), ro.sharing.term()
	at, err := ro.sharing.store.Locate(ctx, who.Key, text)
	if errors.Is(err, sessionlog.ErrNotFound) {
		if s := ro.known(text); s != nil {
			ro.remove(s)
		}
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, storeError("looking for session "+text, err)
	}
	if !who.sees(at.Owner) {
		return nil, ErrNotFound
	}
	if s, err := held(at.ID); s != nil || err != nil {
		return s, err
	}
	found, err := ro.sharing.store.Get(ctx, at.ID)
	if err != nil {
		return nil, storeError("looking for session "+text, err)
	}
	return ro.adopt(found, term), nil
}

// adopt makes a session known, or what is known of it new. The store was asked in a term.
func (ro *roster) adopt(found sessionlog.Session, term uint64) *liveSession {
	k := readStored(ro.models, found)
	for {
		if s := ro.known(found.ID); s != nil {
			ro.renew(s, k, found, term)
			return s
		}
		s := newSession(k, ro.budget)
		s.entry = ro.entry(s, k.lastUsed)
		if ro.registry.Add(s.entry) {
			return s
		}
		s.memory.Close() // another request was quicker
	}
}

// renew makes what is known of a session that is not held what the store has. A session that
// somebody is at work on is left to whoever that is, who claims it first.
func (ro *roster) renew(s *liveSession, k storedSession, found sessionlog.Session, term uint64) {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	switch {
	case ro.sharing.holds(s):
	case s.isClaimed() && s.epoch() == found.Epoch: // nobody has claimed it since this server has
		s.claimIn(term)
	default:
		s.forsakeLocked()
		if k.Version != 0 {
			s.noteHeadLocked(&k.head)
		}
		s.found(found.Epoch, k.bad)
		s.saw(found)
		ro.registry.SetTTL(s.entry, 0)
	}
}

// hold claims a session that is not held, for those who have to be told of all that becomes of it.
func (st *states) hold(ctx context.Context, s *liveSession) error {
	if st.journal.holds(s) {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return st.journal.claimLocked(ctx, s)
}

// listShared is a page of a caller's sessions, as the store has them, and as they are for those that
// are held.
func (ro *roster) listShared(
	who Caller, after string, limit int, labels []Label,
) (page []Info, next string, err error) {
	for looked := 0; looked < lookedMax; looked += limit + 1 {
		some, err := ro.sharing.store.ListOf(context.Background(), who.Key, who.Admin, after, limit+1)
		if err != nil {
			return nil, "", storeError("listing sessions", err)
		}
		for i, found := range some {
			if i == limit || len(page) == limit {
				break
			}
			after = found.ID
			if info := ro.infoOf(who, found); hasLabels(info.Labels, labels) {
				page = append(page, info)
			}
		}
		if len(some) <= limit && (len(some) == 0 || after == some[len(some)-1].ID) {
			return page, "", nil
		}
		if len(page) == limit {
			break
		}
	}
	return page, after, nil
}

// infoOf describes a session that the store has found.
func (ro *roster) infoOf(who Caller, found sessionlog.Session) Info {
	if s := ro.known(found.ID); s != nil && ro.sharing.holds(s) {
		return ro.info(who, s)
	}
	k := readStored(ro.models, found)
	i := k.info(who, k.seen)
	i.LastUsed, i.Err = k.lastUsed, k.bad
	i.Words = k.model != nil && k.model.OfWords()
	return i
}

// make makes a session in the store, of a caller who may have so many. What has expired is deleted
// where it stands in the way.
func (j *journal) make(most int, do func(store sessionlog.Store) (uint64, error)) (uint64, error) {
	if j.sharing == nil {
		return do(j.store)
	}
	if err := j.sharing.mayClaim(); err != nil {
		return 0, err
	}
	store := j.sharing.store.Within(most)
	epoch, err := do(store)
	if errors.Is(err, sessionlog.ErrTaken) || errors.Is(err, sessionlog.ErrQuota) {
		if n, _ := j.sharing.store.Expire(context.Background(), tendBatch); n > 0 {
			return do(store)
		}
	}
	return epoch, err
}

// forget removes the sessions that this server has only looked at, or has handed over.
func (ro *roster) forget() {
	for after, more := "", true; more; {
		var page []*registry.Entry[*liveSession]
		page, more = ro.registry.Page(after, lookedAtOnce, time.Time{})
		for _, e := range page {
			after = e.ID
			if s := e.Value; !s.isClaimed() && ro.registry.Drop(e) {
				s.memory.Close()
			}
		}
	}
}

// tender looks after what no request does, where servers share the store.
type tender struct {
	stop  chan struct{} // nil: it has not begun
	once  sync.Once
	ended sync.WaitGroup
}

// begin looks again and again, until end.
func (t *tender) begin(mg *Manager) {
	t.stop = make(chan struct{})
	t.ended.Go(func() {
		ticks := time.NewTicker(tendTime)
		defer ticks.Stop()
		for term := mg.roster.sharing.term(); ; {
			select {
			case <-t.stop:
				return
			case <-ticks.C:
			}
			term = mg.tend(term)
		}
	})
}

func (t *tender) end() {
	if t.stop != nil {
		t.once.Do(func() { close(t.stop) })
		t.ended.Wait()
	}
}

// tend ends what others are told of sessions that may be another server's by now, and deletes what
// has expired. It gives the term of the lease.
func (mg *Manager) tend(before uint64) (term uint64) {
	sh := mg.roster.sharing
	term = sh.term()
	if err := sh.err(); err != nil || term != before {
		mg.audience.cut(fmt.Errorf("%w: the lease of this server was over", ErrUnavailable))
		if err != nil {
			return term
		}
	}
	mg.roster.sweep()
	mg.roster.forget()
	if _, err := sh.store.Expire(context.Background(), tendBatch); err != nil &&
		!errors.Is(err, sessionlog.ErrUnavailable) && !errors.Is(err, sessionlog.ErrClosed) {
		mg.roster.report(fmt.Errorf("session: deleting what has expired: %w", err))
	}
	return term
}

// HandOver gives the sessions that this server has to the others: it claims and makes none from now
// on (ErrElsewhere), and frees those that it has, one after another, each with a snapshot of its state
// if another would have much to compute. A request that feeds one ends after its chunk, and Watch with
// ErrDraining; a completion is waited for. What the context leaves out is free when the server has
// left. It does nothing where the store is not shared.
func (mg *Manager) HandOver(ctx context.Context) {
	if mg.roster.sharing == nil {
		return
	}
	mg.roster.sharing.leaving.Store(true)
	for _, wait := range []bool{false, true} { // those that somebody is at work on come last
		var all errgroup.Group
		all.SetLimit(handOverMost)
		for after, more := "", true; more && ctx.Err() == nil; {
			var page []*registry.Entry[*liveSession]
			page, more = mg.roster.registry.Page(after, listPage, time.Time{})
			for _, e := range page {
				after = e.ID
				all.Go(func() error {
					mg.handOver(ctx, e.Value, wait)
					return nil
				})
			}
		}
		_ = all.Wait()
	}
}

// handOver frees a session.
func (mg *Manager) handOver(ctx context.Context, s *liveSession, wait bool) {
	if !s.isClaimed() || !s.tryLock() && (!wait || s.lock(ctx) != nil) {
		return
	}
	defer s.unlock()
	st := mg.engine.states
	if s.stateLocked() != nil && s.replay >= replayWorth {
		keeping, cancel := context.WithTimeout(ctx, handOverKeep)
		st.keepLocked(keeping, s)
		cancel()
	}
	idle := mg.engine.clock.now().Sub(mg.roster.registry.LastUsed(s.entry))
	err := mg.roster.sharing.store.Release(context.WithoutCancel(ctx), s.ID, s.epoch(), idle)
	s.forsakeLocked()
	s.watchers.cut(ErrDraining)
	if err != nil && !s.isGone(err) {
		mg.roster.report(fmt.Errorf("session: handing over session %s: %w", s.ID, err))
	}
}
