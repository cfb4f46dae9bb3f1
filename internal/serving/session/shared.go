package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// This file is the catalog of a store that servers share. The registry has the sessions that this
// server has seen. A server holds a session while its claim from the current term of its lease is
// in force. For a session that this server holds, the registry is current. For other sessions, the
// server asks the store first.

const (
	tendTime    = 2 * time.Second
	tendBatch   = 100
	handOverMax = 16
	// limit on the time for a snapshot; without the snapshot, the next server recomputes more text
	handOverKeep = time.Second
)

// sharedCatalog is the catalog of a store that servers share. The store finds sessions by id or
// name. The registry has the sessions that this server has seen.
type sharedCatalog struct {
	*index
	shared storage.Shared

	stop  chan struct{} // closed to end the background loop; nil before the loop has begun
	once  sync.Once
	ended chan struct{} // closed when the background loop has ended
}

// load does nothing: sessions are registered when a request names them.
func (c *sharedCatalog) load(context.Context) error { return nil }

// TermsOf returns the part of a session's head that a shared store needs. If the head cannot be
// read, only Complete is set.
func TermsOf(text []byte) storage.Terms {
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return storage.Terms{Complete: true}
	}
	t := storage.Terms{
		Owner: h.Owner, Name: h.Name, Complete: h.Complete, TTL: h.TTL, Model: h.Model.Hash,
	}
	if len(h.Numerics) > 0 {
		t.Numerics = h.numerics().Name
	}
	return t
}

func (c *sharedCatalog) has(id string) bool {
	s := c.known(id)
	return s != nil && s.holds()
}

// entry returns the registry entry for a session. The entry has no name, because the store finds
// sessions by name. The entry does not expire until this server claims the session.
func (c *sharedCatalog) entry(s *session, lastUsed time.Time) *registry.Entry[*session] {
	return registry.NewEntry(s.ID, s.Owner, "", 0, lastUsed, s)
}

func (c *sharedCatalog) reserves(string, int) (string, int) { return "", 0 }

func (c *sharedCatalog) deletes(s *session) bool { return s.holds() }

func (c *sharedCatalog) claimed(s *session) {
	c.registry.Touch(s.entry, c.clock.now().UTC())
	c.registry.SetTTL(s.entry, s.TTL)
}

func (c *sharedCatalog) named(_ context.Context, who Caller, name string) (*session, error) {
	s, err := c.find(who, name)
	if err == ErrNotFound {
		err = nil
	}
	return s, err
}

// find returns a session from the registry if this server holds it, else from the store.
func (c *sharedCatalog) find(who Caller, text string) (*session, error) {
	if err := c.lease.err(); err != nil {
		return nil, err
	}
	held := func(id string) (s *session, err error) {
		if s = c.known(id); s == nil || !s.holds() {
			return nil, nil
		}
		if !who.sees(s.Owner) || c.registry.Find(id, c.clock.now()) == nil {
			return nil, ErrNotFound
		}
		return s, nil
	}
	if s, err := held(text); s != nil || err != nil {
		return s, err
	}
	ctx, term := context.Background(), c.lease.Term()
	at, err := c.shared.Locate(ctx, who.Key, text)
	if errors.Is(err, storage.ErrNotFound) {
		if s := c.known(text); s != nil {
			c.remove(s)
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
	found, err := c.shared.Get(ctx, at.ID)
	if err != nil {
		return nil, storeError("looking for session "+text, err)
	}
	return c.adopt(found, term), nil
}

// adopt registers or updates a session that was read from the store in the given term of the lease.
func (c *sharedCatalog) adopt(found storage.Session, term uint64) *session {
	k := readStored(c.models, found)
	for {
		if s := c.known(found.ID); s != nil {
			c.renew(s, k, found, term)
			return s
		}
		s := newSession(c.host, k)
		s.entry = c.entry(s, k.lastUsed)
		if c.registry.Add(s.entry, c.clock.now()) {
			return s
		}
		s.memory.Close()
	}
}

// renew updates a session that this server does not hold, with data from the store. It skips a
// session in use, because the request that uses the session claims it first.
func (c *sharedCatalog) renew(s *session, k storedSession, found storage.Session, term uint64) {
	if !s.tryLock() {
		return
	}
	defer s.unlock()
	switch {
	case s.holds():
	// No other server has claimed the session since.
	case s.isClaimed() && s.epoch() == found.Epoch:
		s.renewClaim(term)
	default:
		s.loseClaimLocked()
		if k.Version != 0 {
			s.noteHeadLocked(&k.head)
		}
		s.found(found.Epoch, k.bad)
		s.saw(found)
		c.registry.SetTTL(s.entry, 0)
	}
}

// list returns a page of a caller's sessions from the store. Sessions that this server holds are
// described from memory, which is more current.
func (c *sharedCatalog) list(
	who Caller, after string, limit int, labels []Label,
) (page []Info, next string, err error) {
	batch := limit
	if len(labels) > 0 {
		batch = max(limit, lookedAtOnce)
	}
	for looked := 0; looked < lookedMax; looked += batch + 1 {
		some, err := c.shared.ListOf(context.Background(), who.Key, who.Admin, after, batch+1)
		if err != nil {
			return nil, "", storeError("listing sessions", err)
		}
		for i, found := range some {
			if i == batch || len(page) == limit {
				break
			}
			after = found.ID
			if info := c.infoOf(who, found); hasLabels(info.Labels, labels) {
				page = append(page, info)
			}
		}
		if len(some) <= batch && (len(some) == 0 || after == some[len(some)-1].ID) {
			return page, "", nil
		}
		if len(page) == limit {
			break
		}
	}
	return page, after, nil
}

func (c *sharedCatalog) infoOf(who Caller, found storage.Session) Info {
	if s := c.known(found.ID); s != nil && s.holds() {
		return c.info(who, s)
	}
	k := readStored(c.models, found)
	i := k.info(who, k.seen)
	i.LastUsed, i.Err = k.lastUsed, k.bad
	i.Words = k.model != nil && k.model.OfWords()
	return i
}

// make makes a session in the store. If the name is taken or the limit is reached, it deletes
// expired sessions and tries again.
func (c *sharedCatalog) make(max int, do func(storage.Store) (uint64, error)) (uint64, error) {
	if err := c.lease.mayClaim(); err != nil {
		return 0, err
	}
	store := c.shared.Within(max)
	epoch, err := do(store)
	if errors.Is(err, storage.ErrTaken) || errors.Is(err, storage.ErrQuota) {
		if n, _ := c.shared.Expire(context.Background(), tendBatch); n > 0 {
			return do(store)
		}
	}
	return epoch, err
}

// begin starts the background work, which the method end stops. This work calls cut when other
// servers may have claimed this server's sessions.
func (c *sharedCatalog) begin(cut func(error)) {
	c.stop, c.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.ended)
		ticks := time.NewTicker(tendTime)
		defer ticks.Stop()
		for term := c.lease.Term(); ; {
			select {
			case <-c.stop:
				return
			case <-ticks.C:
			}
			term = c.tend(term, cut)
		}
	}()
}

func (c *sharedCatalog) end(ctx context.Context) {
	c.once.Do(func() { close(c.stop) })
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}

// tend deletes expired sessions, repeats failed deletions, and drops unclaimed sessions from the
// registry. It calls cut if the lease has lapsed, and returns the term of the lease.
func (c *sharedCatalog) tend(before uint64, cut func(error)) (term uint64) {
	term = c.lease.Term()
	if err := c.lease.Err(); err != nil || term != before {
		cut(fmt.Errorf("%w: the lease of this server lapsed", ErrUnavailable))
		if err != nil {
			return term
		}
	}
	c.sweep()
	c.forget()
	_, err := c.shared.Expire(context.Background(), tendBatch)
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrClosed) {
		return term
	}
	if err != nil {
		c.logError(fmt.Errorf("session: deleting expired sessions: %w", err))
	}
	discardAll(c.undeleted.take())
	return term
}

// forget drops unclaimed sessions from the registry: this server has only read them, or has handed
// them over.
func (c *sharedCatalog) forget() {
	for after, more := "", true; more; {
		var page []*registry.Entry[*session]
		page, more = c.registry.Page(after, lookedAtOnce, time.Time{})
		for _, e := range page {
			after = e.ID
			if s := e.Value; !s.isClaimed() && c.registry.Drop(e) {
				s.memory.Close()
			}
		}
	}
}

// handOver releases this server's sessions, first the idle sessions, then the sessions that
// requests use.
func (c *sharedCatalog) handOver(ctx context.Context) {
	c.lease.leaving.Store(true)
	for _, wait := range []bool{false, true} {
		var all errgroup.Group
		all.SetLimit(handOverMax)
		for after, more := "", true; more && ctx.Err() == nil; {
			var page []*registry.Entry[*session]
			page, more = c.registry.Page(after, listPage, time.Time{})
			for _, e := range page {
				after = e.ID
				all.Go(func() error {
					c.release(ctx, e.Value, wait)
					return nil
				})
			}
		}
		_ = all.Wait()
	}
}

func (c *sharedCatalog) release(ctx context.Context, s *session, wait bool) {
	if ctx.Err() != nil || !s.isClaimed() || !s.tryLock() && (!wait || s.lock(ctx) != nil) {
		return
	}
	defer s.unlock()
	keeping, cancel := context.WithTimeout(ctx, handOverKeep)
	s.saveLocked(keeping)
	cancel()
	idle := c.clock.now().Sub(c.registry.LastUsed(s.entry))
	err := c.shared.Release(ctx, s.ID, s.epoch(), idle)
	s.loseClaimLocked()
	s.watchers.cut(ErrDraining)
	if err != nil && ctx.Err() == nil && !s.isGone(err) {
		c.logError(fmt.Errorf("session: handing over session %s: %w", s.ID, err))
	}
}
