package session

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/session/budget"
	"github.com/lmserve/lmserve/internal/session/disk"
	"github.com/lmserve/lmserve/internal/session/lifecycle"
	"github.com/lmserve/lmserve/internal/session/registry"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// roster is which sessions there are: the registry in memory, and the store that it is read from.
type roster struct {
	models   models
	sharing  *sharing // nil: the store is this Manager's alone
	registry *registry.Registry[*liveSession]
	budget   *budget.Budget[*liveSession]
	journal  *journal
	life     *lifecycle.Lifecycle
	room     *disk.Guard
	clock    *clock
	max      int // sessions
	report   func(error)
}

// load finds out which sessions the store has. Nothing is computed, and nothing but heads and last
// records is read. Sessions that were never completed, and those that have expired, are deleted.
//
// Where servers share the store, its sessions become known when somebody asks for them.
func (ro *roster) load(ctx context.Context) error {
	if ro.sharing != nil {
		return nil
	}
	var halves, shadows []*liveSession
	err := sessionlog.Each(ctx, ro.journal.store, func(found sessionlog.Session) error {
		s := newSession(readStored(ro.models, found), ro.budget)
		ro.room.Open(s.ID, s.Owner)
		bad := s.unusable()
		switch {
		case bad == nil && !s.Complete:
			halves = append(halves, s)
			return nil
		case bad != nil:
			ro.report(bad)
		}
		ro.registry.Add(s.entry)
		if s.ShadowOf != "" {
			shadows = append(shadows, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("session: listing what is stored: %w", err)
	}
	if m, ok := ro.journal.store.(sessionlog.Metered); ok {
		m.Meter(ro.room.Charge)
	}
	ro.journal.discardAll(halves)
	for _, s := range shadows {
		if e := ro.registry.Find(s.ShadowOf, ro.clock.now()); e != nil {
			_ = s.follow(e.Value) // one too many does not go on, and says so
		}
	}
	ro.sweep()
	return nil
}

// find finds the session that a request names, by its id or by the name that the caller gave it.
func (ro *roster) find(who Caller, id string) (*liveSession, error) {
	if ro.sharing != nil {
		return ro.findShared(who, id)
	}
	now := ro.clock.now()
	e := ro.registry.Find(id, now)
	if e == nil {
		e, _ = ro.registry.Named(who.Key, id, now)
	}
	if e == nil || !who.sees(e.Owner) {
		return nil, ErrNotFound
	}
	return e.Value, nil
}

// named finds the caller's session of a name, nil if there is none. It waits for one that is being
// made; the context ends the wait.
func (ro *roster) named(ctx context.Context, who Caller, name string) (*liveSession, error) {
	if ro.sharing != nil {
		s, err := ro.findShared(who, name)
		if err == ErrNotFound {
			err = nil
		}
		return s, err
	}
	for {
		e, making := ro.registry.Named(who.Key, name, ro.clock.now())
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

// use finds a session for a request that feeds or samples it. done must follow.
func (ro *roster) use(who Caller, id string) (s *liveSession, done func(), err error) {
	s, used, err := ro.useAny(who, id)
	if err != nil {
		return nil, nil, err
	}
	if err := s.unusable(); err != nil {
		used()
		return nil, nil, err
	}
	if who.Key == s.Owner { // else the limit is another key's
		ro.room.Limit(s.Owner, who.MaxDisk)
	}
	s.asked.Add(1)
	return s, func() {
		s.asked.Add(-1)
		used()
	}, nil
}

// useAny is use for a session that may be unusable.
func (ro *roster) useAny(who Caller, id string) (s *liveSession, done func(), err error) {
	if err := ro.life.Check(); err != nil {
		return nil, nil, err
	}
	for {
		if s, err = ro.find(who, id); err != nil {
			return nil, nil, err
		}
		if ro.registry.Use(s.entry, ro.clock.now()) {
			return s, func() { ro.registry.Done(s.entry) }, nil
		}
		if ro.sharing == nil { // else it was forgotten meanwhile, or is found no more
			return nil, nil, ErrNotFound
		}
	}
}

// touch ends a request that fed or sampled a session.
func (ro *roster) touch(s *liveSession) { ro.registry.Touch(s.entry, ro.clock.now().UTC()) }

// info describes a session.
func (ro *roster) info(who Caller, s *liveSession) Info {
	i := s.info(who, ro.registry.LastUsed(s.entry), s.memory.Bytes())
	i.DiskBytes = ro.room.Charged(s.ID)
	s.addLinks(who, &i)
	return i
}

// get describes the session that a request names.
func (ro *roster) get(ctx context.Context, who Caller, id string) (Info, error) {
	s, err := ro.find(who, id)
	if err != nil {
		return Info{}, err
	}
	if s.isStale() {
		if err := ro.journal.look(ctx, s); err != nil {
			return Info{}, err
		}
	}
	return ro.info(who, s), nil
}

// list describes a page of the sessions that a caller sees and that have all of the labels.
func (ro *roster) list(
	who Caller, after string, limit int, labels []Label,
) (page []Info, next string, err error) {
	ro.sweep()
	if ro.sharing != nil {
		return ro.listShared(who, after, limit, labels)
	}
	found, next := ro.choose(who, after, limit, labels)
	accounts := make([]*budget.Account[*liveSession], len(found))
	for i, e := range found {
		accounts[i] = e.Value.memory
	}
	for i, bytes := range ro.budget.BytesOf(accounts) {
		told := found[i].Value.info(who, ro.registry.LastUsed(found[i]), bytes)
		told.DiskBytes = ro.room.Charged(told.ID)
		found[i].Value.addLinks(who, &told)
		page = append(page, told)
	}
	return page, next, nil
}

// page finds sessions that a caller sees, in order, and says whether there are more.
func (ro *roster) page(
	who Caller, after string, limit int,
) (found []*registry.Entry[*liveSession], more bool) {
	now := ro.clock.now()
	if who.Admin {
		return ro.registry.Page(after, limit, now)
	}
	return ro.registry.PageOf(who.Key, after, limit, now)
}

// choose finds sessions that a caller sees and that have all of the labels, and where the next page
// starts after. Labels are in no index: sessions are looked at in order, a few under one lock, and up
// to lookedMax of them for one page, which may have few sessions, or none, and yet not be the last.
func (ro *roster) choose(
	who Caller, after string, limit int, labels []Label,
) (found []*registry.Entry[*liveSession], next string) {
	if len(labels) == 0 {
		found, more := ro.page(who, after, limit)
		if more {
			next = found[len(found)-1].ID
		}
		return found, next
	}
	for looked := 0; looked < lookedMax; looked += lookedAtOnce {
		some, more := ro.page(who, after, lookedAtOnce)
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

// delete deletes the session that a request names, and its shadows, which have its text: these
// first, so that none is left without it. What is at work on them ends after its chunk.
func (ro *roster) delete(who Caller, id string) error {
	s, err := ro.find(who, id)
	if err != nil {
		return err
	}
	if err := ro.deleteShadows(s); err != nil {
		return err
	}
	if err := ro.deleteOne(s); err != nil {
		return err
	}
	return ro.deleteShadows(s) // of which one may have been made meanwhile
}

// deleteShadows deletes the shadows of a session.
func (ro *roster) deleteShadows(of *liveSession) error {
	for _, s := range of.shadows() {
		if err := ro.deleteOne(s); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// deleteOne deletes a session.
func (ro *roster) deleteOne(s *liveSession) error {
	id, ctx := s.ID, context.Background() // the erasing of what is gone has to come to its end
	err := ro.journal.delete(ctx, s)
	if err != nil {
		if _, still := ro.journal.store.Get(ctx, s.ID); !errors.Is(still, sessionlog.ErrNotFound) {
			return storeError("deleting session "+id, err)
		}
	}
	ro.remove(s)
	_ = ro.room.Alarm() // it may have ended, and is told to whom it concerns
	if err != nil {
		return storeError("deleting session "+id, err)
	}
	return nil
}

// remove makes an end of a session that the store has no more.
func (ro *roster) remove(s *liveSession) {
	if ro.registry.Remove(s.entry) {
		s.end()
		s.leave()
	}
}

// sweep deletes the sessions that were not used for too long. It runs whenever sessions are made or
// listed, so that no goroutine is needed: nobody finds a session that has expired before.
func (ro *roster) sweep() {
	now := ro.clock.now()
	for more := true; more; {
		var doomed, shadows []*liveSession
		for more && len(doomed) < deletesAtOnce {
			gone := ro.registry.Expire(now, sweepBatch)
			for _, e := range gone {
				e.Value.end()
				e.Value.leave()
				if ro.sharing != nil && !ro.sharing.holds(e.Value) {
					continue // it is for another to say
				}
				doomed = append(doomed, e.Value)
				shadows = append(shadows, e.Value.shadows()...)
			}
			more = len(gone) == sweepBatch
		}
		for _, s := range shadows {
			ro.remove(s)
		}
		ro.journal.discardAll(shadows) // first, so that none is left without its session
		ro.journal.discardAll(doomed)
	}
}

// sweepBatch is how many sessions expire under one lock, which a chunk may wait for.
const sweepBatch = 64

// blueprint is a session that is going to be made.
type blueprint struct {
	who   Caller
	s     *liveSession
	store func() error // makes it in the store
	fill  func() error // what is to be done before anybody sees it; nil: nothing
	disk  int64        // bytes of the disk that it will take, at most, besides its head
}

// fresh is a session that is not in the store yet.
func (ro *roster) fresh(
	who Caller, name string, m *servedModel, set stream.Settings, r CreateRequest,
) (*liveSession, error) {
	id, err := uuid.NewV7() // ordered by time of creation, and so are lists
	if err != nil {
		return nil, fmt.Errorf("session: id: %w", err)
	}
	now := ro.clock.now().UTC()
	h := head{
		Version: headVersion, ID: id.String(), Complete: true, Owner: who.Key, Created: now,
		Model: modelName{m.Name, m.Hash()}, Settings: set, Labels: maps.Clone(r.Labels),
		TTL: r.TTL, History: r.History, Numerics: []numerics{{Name: m.Arithmetic.Numerics()}},
		Name: name,
	}
	if h.History == "" {
		h.History = HistoryFull
	}
	s := newSession(storedSession{head: h, model: m, lastUsed: now}, ro.budget)
	s.most = who.MaxSessions
	s.entry = ro.entry(s, now)
	return s, nil
}

// blank is a session of no text that is in no store and in no registry: what a request continues
// that names none. Its method is the static one, which no text is learnt by: it is what every method
// that writes fast weights scores with before it has learnt.
func (ro *roster) blank(who Caller, m *servedModel) (*liveSession, error) {
	return ro.fresh(who, "", m, stream.DefaultsFor(m.Model, stream.Static), CreateRequest{})
}

// build makes a session, in the store first, and then fills it. If that fails nothing is left.
func (ro *roster) build(ctx context.Context, m blueprint) (Info, error) {
	s := m.s
	if err := ro.admit(m); err != nil {
		return Info{}, err
	}
	defer ro.room.Made(s.ID)
	if err := ro.store(ctx, m); err != nil {
		s.end()
		ro.registry.Cancel(s.Owner, ro.nameHere(s.Name))
		return Info{}, err
	}
	ro.registry.Enter(s.entry)
	ro.registry.SetTTL(s.entry, s.TTL)
	return ro.info(m.who, s), nil
}

// nameHere is the name under which the registry has a session of a name.
func (ro *roster) nameHere(name string) string {
	if ro.sharing != nil {
		return ""
	}
	return name
}

// mayMake says early whether a caller has no room on the disk for one more session.
func (ro *roster) mayMake(who Caller) error {
	ro.room.Limit(who.Key, who.MaxDisk)
	return ro.room.Room(who.Key, emptyBytes)
}

// admit reserves the place of one more session of the caller, and its room on the disk.
func (ro *roster) admit(m blueprint) error {
	who, s := m.who, m.s
	ro.sweep()
	if err := ro.life.Check(); err != nil {
		return err
	}
	name, most := ro.nameHere(s.Name), who.MaxSessions
	if ro.sharing != nil { // the store counts them
		most = 0
	}
	err := ro.registry.Reserve(who.Key, name, most)
	switch {
	case errors.Is(err, registry.ErrName):
		return &NameTakenError{s.Name}
	case errors.Is(err, registry.ErrQuota):
		return &QuotaError{Max: who.MaxSessions}
	case errors.Is(err, registry.ErrFull):
		return fmt.Errorf("%w: %d sessions", ErrFull, ro.max)
	}
	err = memoryError(s.memory.Fits(s.stateBytes(s.model.Model))) // else it could never be used
	if err == nil {
		ro.room.Limit(who.Key, who.MaxDisk)
		err = ro.room.Reserve(s.ID, s.Owner, sessionlog.SessionCharge+int64(len(s.encode()))+m.disk)
	}
	if err != nil {
		ro.registry.Cancel(who.Key, name)
	}
	return err
}

func (ro *roster) store(ctx context.Context, m blueprint) error {
	s := m.s
	err := m.store()
	switch {
	case errors.Is(err, sessionlog.ErrTaken):
		return &NameTakenError{s.Name}
	case errors.Is(err, sessionlog.ErrQuota):
		return &QuotaError{Max: m.who.MaxSessions}
	case err != nil:
		return err
	}
	err = m.fill()
	if err == nil && !s.Complete {
		s.Complete = true
		err = ro.journal.setHeadLocked(ctx, s, &s.head)
	}
	if err != nil {
		ro.journal.discard(s)
	}
	return err
}
