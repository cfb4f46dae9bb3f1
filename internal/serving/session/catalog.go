package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session/budget"
	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// ownCatalog is the catalog of a store that only this Manager uses. Its registry contains all
// sessions, with their names.
type ownCatalog struct{ *index }

// load registers the sessions in the store. It reads only heads and last records, and computes no
// states. It deletes sessions that have expired or whose creation was not completed.
func (c ownCatalog) load(ctx context.Context) error {
	var halves, shadows []*session
	err := storage.Each(ctx, c.store, func(found storage.Session) error {
		s := newSession(c.host, readStored(c.models, found))
		c.disk.Open(s.ID, s.Owner)
		bad := s.unusable()
		switch {
		case bad == nil && !s.Complete:
			halves = append(halves, s)
			return nil
		case bad != nil:
			c.logError(bad)
		}
		c.registry.Add(s.entry, c.clock.now())
		if s.ShadowOf != "" {
			shadows = append(shadows, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("session: listing the stored sessions: %w", err)
	}
	if m, ok := c.store.(storage.Metered); ok {
		m.Meter(c.disk.Charge)
	}
	discardAll(halves)
	for _, s := range shadows {
		if e := c.registry.Find(s.ShadowOf, c.clock.now()); e != nil {
			_ = s.follow(e.Value) // ignored: there are too many shadows, and s is not fed
		}
	}
	c.sweep()
	return nil
}

// find returns the session that a request names, by its id or by the caller's name for it.
func (c ownCatalog) find(who Caller, id string) (*session, error) {
	now := c.clock.now()
	e := c.registry.Find(id, now)
	if e == nil {
		e, _ = c.registry.Named(who.Key, id, now)
	}
	if e == nil || !who.sees(e.Owner) {
		return nil, ErrNotFound
	}
	return e.Value, nil
}

// named returns the caller's session with the given name, or nil if there is none. If another
// request is creating the session, named waits until the creation or the context ends.
func (c ownCatalog) named(ctx context.Context, who Caller, name string) (*session, error) {
	for {
		e, making := c.registry.Named(who.Key, name, c.clock.now())
		switch {
		case e != nil:
			return e.Value, nil
		case making == nil:
			return nil, nil
		}
		select {
		case <-making:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c ownCatalog) list(
	who Caller, after string, limit int, labels []Label,
) (page []Info, next string, err error) {
	found, next := c.choose(who, after, limit, labels)
	accounts := make([]*budget.Account[*session], len(found))
	for i, e := range found {
		accounts[i] = e.Value.memory
	}
	for i, bytes := range c.budget.BytesOf(accounts) {
		told := found[i].Value.info(who, c.registry.LastUsed(found[i]), bytes)
		told.DiskBytes = c.disk.Charged(told.ID)
		found[i].Value.addLinks(who, &told)
		page = append(page, told)
	}
	return page, next, nil
}

func (c ownCatalog) page(
	who Caller, after string, limit int,
) (found []*registry.Entry[*session], more bool) {
	now := c.clock.now()
	if who.Admin {
		return c.registry.Page(after, limit, now)
	}
	return c.registry.PageOf(who.Key, after, limit, now)
}

// choose returns up to limit sessions that the caller may see and that have all of the labels. It
// also returns where the next page starts. Without an index of labels, it must look at each
// session. So it looks at up to lookedMax sessions, and locks the registry for a few of them at a
// time. A page may therefore be short or empty although more pages follow.
func (c ownCatalog) choose(
	who Caller, after string, limit int, labels []Label,
) (found []*registry.Entry[*session], next string) {
	if len(labels) == 0 {
		found, more := c.page(who, after, limit)
		if more {
			next = found[len(found)-1].ID
		}
		return found, next
	}
	for looked := 0; looked < lookedMax; looked += lookedAtOnce {
		some, more := c.page(who, after, lookedAtOnce)
		for _, e := range some {
			if !e.Value.hasLabels(labels) {
				continue
			}
			if len(found) == limit {
				return found, found[limit-1].ID
			}
			found = append(found, e)
		}
		if !more {
			return found, ""
		}
		after = some[len(some)-1].ID
	}
	return found, after
}

func (c ownCatalog) entry(s *session, _ time.Time) *registry.Entry[*session] { return s.entry }

func (c ownCatalog) reserves(name string, max int) (string, int) { return name, max }

// make makes a session in the store. If the store answers, make also repeats failed deletions. A
// session that was not deleted may still have the new session's name in the store.
func (c ownCatalog) make(_ int, do func(storage.Store) (uint64, error)) (uint64, error) {
	epoch, err := do(c.store)
	taken := errors.Is(err, storage.ErrTaken)
	if err != nil && !taken {
		return epoch, err
	}
	if some := c.undeleted.take(); len(some) > 0 {
		discardAll(some)
		if taken {
			return do(c.store)
		}
	}
	return epoch, err
}

func (c ownCatalog) deletes(*session) bool { return true }

func (c ownCatalog) has(string) bool { return true }

func (c ownCatalog) begin(func(error)) {}

func (c ownCatalog) end(context.Context) {}

func (c ownCatalog) handOver(context.Context) {}

// claimed copies the TTL and the name of the session to its registry entry. If another session of
// the same owner already has the name, the entry gets no name. If the session was detached by a
// write of unknown outcome, claimed also ends the following.
func (c ownCatalog) claimed(s *session) {
	if s.ShadowOf == "" {
		s.leave()
	}
	c.registry.SetTTL(s.entry, s.TTL)
	if named, err := c.registry.Rename(s.entry, s.Name); err == nil {
		named(true)
	}
}
