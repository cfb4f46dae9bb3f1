package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// index finds sessions. The registry contains the sessions that this server has read from the
// store. The catalog contains all sessions.
type index struct {
	*host
	models   models
	registry *registry.Registry[*session]
	catalog  catalog
	max      int
}

// catalog lists all sessions, including sessions that this server has not loaded.
type catalog interface {
	// load enters the stored sessions in the registry, without computing their states.
	load(ctx context.Context) error
	// find returns the session that a request names, by its id or by the caller's name for it.
	find(who Caller, text string) (*session, error)
	// named returns the caller's session with the given name, or nil. While another request makes
	// this session, named may wait.
	named(ctx context.Context, who Caller, name string) (*session, error)
	// list describes one page of the sessions that have all the labels and that the caller may see.
	list(who Caller, after string, limit int, labels []Label) (page []Info, next string, err error)
	entry(s *session, lastUsed time.Time) *registry.Entry[*session]
	// reserves returns the name to reserve in the registry, and the limit on sessions to check
	// there. It returns "" and 0 if the store reserves names and checks the limit.
	reserves(name string, max int) (string, int)
	// make creates a session in the store by a call of parameter do, and returns the result of do.
	// Parameter max limits the number of the owner's sessions.
	make(max int, do func(storage.Store) (uint64, error)) (uint64, error)
	// claimed updates the session's registry entry after this server has claimed the session.
	claimed(s *session)
	// has reports whether this server has claimed the session and so may serve it.
	has(id string) bool
	// begin starts background work, which method end stops. This work calls cut when other servers
	// may have claimed sessions of this server. Method end waits for this work until ctx ends.
	begin(cut func(error))
	end(ctx context.Context)
	// handOver releases this server's sessions, so that other servers can claim them.
	handOver(ctx context.Context)
	// deletes reports whether this server must delete the session after its expiry.
	deletes(s *session) bool
}

// known returns the session with this id, even if the session has expired. It returns nil if the
// registry lacks the id.
func (ix *index) known(id string) *session {
	if e := ix.registry.Find(id, time.Time{}); e != nil {
		return e.Value
	}
	return nil
}

// use returns a session for a request that feeds it or samples from it. The caller must call done.
func (ix *index) use(who Caller, id string) (s *session, done func(), err error) {
	s, used, err := ix.useAny(who, id)
	if err != nil {
		return nil, nil, err
	}
	if err := s.unusable(); err != nil {
		used()
		return nil, nil, err
	}
	if who.Key == s.Owner { // an admin's MaxDisk is not the owner's limit
		ix.disk.Limit(s.Owner, who.MaxDisk)
	}
	s.asked.Add(1)
	return s, func() {
		s.asked.Add(-1)
		used()
	}, nil
}

// useAny is like use, but also returns an unusable session.
func (ix *index) useAny(who Caller, id string) (s *session, done func(), err error) {
	if err := ix.life.Check(); err != nil {
		return nil, nil, err
	}
	for {
		if s, err = ix.catalog.find(who, id); err != nil {
			return nil, nil, err
		}
		if ix.registry.Use(s.entry, ix.clock.now()) {
			return s, func() { ix.registry.Done(s.entry) }, nil
		} // another request removed the session meanwhile
	}
}

func (ix *index) touch(s *session) { ix.registry.Touch(s.entry, ix.clock.now().UTC()) }

func (ix *index) info(who Caller, s *session) Info {
	i := s.info(who, ix.registry.LastUsed(s.entry), s.memory.Bytes())
	i.DiskBytes = ix.disk.Charged(s.ID)
	s.addLinks(who, &i)
	return i
}

func (ix *index) get(ctx context.Context, who Caller, id string) (Info, error) {
	s, err := ix.catalog.find(who, id)
	if err != nil {
		return Info{}, err
	}
	if s.isStale() {
		if err := s.look(ctx); err != nil {
			return Info{}, err
		}
	}
	return ix.info(who, s), nil
}

// delete deletes the session that a request names. It deletes the session's shadows first, because
// they contain the same text. Other requests on these sessions fail after their current chunk.
func (ix *index) delete(who Caller, id string) error {
	s, err := ix.catalog.find(who, id)
	if err != nil {
		return err
	}
	if err := ix.deleteShadows(s); err != nil {
		return err
	}
	if err := ix.deleteOne(s); err != nil {
		return err
	}
	return ix.deleteShadows(s)
}

func (ix *index) deleteShadows(of *session) error {
	for _, s := range of.shadows() {
		if err := ix.deleteOne(s); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func (ix *index) deleteOne(s *session) error {
	id, ctx := s.ID, context.Background() // the deletion must not stop when the client disconnects
	err := s.delete(ctx)
	if err != nil {
		if _, still := ix.store.Get(ctx, s.ID); !errors.Is(still, storage.ErrNotFound) {
			return storeError("deleting session "+id, err)
		}
	}
	ix.remove(s)
	_ = ix.disk.Alarm() // updates the disk alarm, which the freed space may end
	if err != nil {
		return storeError("deleting session "+id, err)
	}
	return nil
}

func (ix *index) remove(s *session) {
	if ix.registry.Remove(s.entry) {
		s.end()
		s.leave()
	}
}

// sweep deletes expired sessions. No background goroutine is needed: requests ignore expired
// sessions, and each creation, naming or listing of sessions calls sweep.
func (ix *index) sweep() {
	now := ix.clock.now()
	for more := true; more; {
		var doomed, shadows []*session
		for more && len(doomed) < deletesAtOnce {
			gone := ix.registry.Expire(now, sweepBatch)
			for _, e := range gone {
				e.Value.end()
				e.Value.leave()
				if !ix.catalog.deletes(e.Value) {
					continue // the server that has claimed the session deletes it
				}
				doomed = append(doomed, e.Value)
				shadows = append(shadows, e.Value.shadows()...)
			}
			more = len(gone) == sweepBatch
		}
		for _, s := range shadows {
			ix.remove(s)
		}
		discardAll(shadows) // so that no shadow outlives the followed session
		discardAll(doomed)
	}
}

// sweepBatch is the number of sessions that expire during one locking of the registry. It is small,
// because requests wait for this lock.
const sweepBatch = 64

type creation struct {
	who   Caller
	s     *session
	store func() error
	fill  func() error
	disk  int64 // maximum disk space for its data, without the head, in bytes
}

func (ix *index) fresh(
	who Caller, name string, m *servedModel, set stream.Settings, r CreateRequest,
) (*session, error) {
	id, err := uuid.NewV7() // version 7 ids sort by time of creation
	if err != nil {
		return nil, fmt.Errorf("session: id: %w", err)
	}
	now := ix.clock.now().UTC()
	h := head{
		Version: headVersion, ID: id.String(), Complete: true, Owner: who.Key, Created: now,
		Model: modelName{m.Name, m.Hash()}, Settings: set, Labels: maps.Clone(r.Labels),
		TTL: r.TTL, History: r.History, Numerics: []numerics{{Name: m.Arithmetic.Numerics()}},
		Name: name,
	}
	if h.History == "" {
		h.History = HistoryFull
	}
	s := newSession(ix.host, storedSession{head: h, model: m, lastUsed: now})
	s.maxOwned = who.MaxSessions
	s.entry = ix.catalog.entry(s, now)
	return s, nil
}

// blank returns an empty session for a request that names no session. The session is neither in the
// store nor in the registry. Its method is static, which learns nothing.
func (ix *index) blank(who Caller, m *servedModel) (*session, error) {
	return ix.fresh(who, "", m, stream.DefaultsFor(m.Model, stream.Static), CreateRequest{})
}

// build makes a session in the store and then fills the session. On an error, build removes the
// session again.
func (ix *index) build(ctx context.Context, m creation) (Info, error) {
	s := m.s
	if err := ix.admit(m); err != nil {
		return Info{}, err
	}
	defer ix.disk.Made(s.ID)
	err := ix.storeCreation(ctx, m)
	if err == nil && ix.registry.Enter(s.entry) {
		ix.registry.SetTTL(s.entry, s.TTL)
		return ix.info(m.who, s), nil
	}
	s.end()
	name, _ := ix.catalog.reserves(s.Name, 0)
	ix.registry.Cancel(s.Owner, name)
	if err != nil {
		return Info{}, err
	}
	// Another request has already found the session in the store and registered it.
	return ix.get(ctx, m.who, s.ID)
}

// mayMake returns an error if the caller has no disk space for another session.
func (ix *index) mayMake(who Caller) error {
	ix.disk.Limit(who.Key, who.MaxDisk)
	return ix.disk.Room(who.Key, emptyBytes)
}

func (ix *index) admit(m creation) error {
	who, s := m.who, m.s
	ix.sweep()
	if err := ix.life.Check(); err != nil {
		return err
	}
	name, limit := ix.catalog.reserves(s.Name, who.MaxSessions)
	err := ix.registry.Reserve(who.Key, name, limit)
	switch {
	case errors.Is(err, registry.ErrName):
		return &NameTakenError{s.Name}
	case errors.Is(err, registry.ErrQuota):
		return &QuotaError{Max: who.MaxSessions}
	case errors.Is(err, registry.ErrFull):
		return fmt.Errorf("%w: %d sessions", ErrFull, ix.max)
	}
	// A session whose state exceeds the memory limit could never be used.
	err = memoryError(s.memory.Fits(s.stateBytes(s.model.Model)))
	if err == nil {
		ix.disk.Limit(who.Key, who.MaxDisk)
		err = ix.disk.Reserve(s.ID, s.Owner, storage.SessionCharge+int64(len(s.encode()))+m.disk)
	}
	if err != nil {
		ix.registry.Cancel(who.Key, name)
	}
	return err
}

func (ix *index) storeCreation(ctx context.Context, m creation) error {
	s := m.s
	err := m.store()
	switch {
	case errors.Is(err, storage.ErrTaken):
		return &NameTakenError{s.Name}
	case errors.Is(err, storage.ErrQuota):
		return &QuotaError{Max: m.who.MaxSessions}
	case err != nil:
		return err
	}
	err = m.fill()
	if err == nil && !s.Complete {
		s.Complete = true
		err = s.setHeadLocked(ctx, &s.head)
	}
	if err != nil {
		s.discard()
	}
	return err
}

// create makes a session in the store. Parameter start is the offset at which the session's log
// begins.
func (ix *index) create(ctx context.Context, s *session, start int64) error {
	term := ix.lease.Term()
	epoch, err := ix.catalog.make(s.maxOwned, func(store storage.Store) (uint64, error) {
		return store.Create(ctx, s.ID, s.encode(), start)
	})
	return s.noteMade(epoch, term, err)
}

// fork makes a new session in the store. The new session shares the log and snapshots of another
// session.
func (ix *index) fork(ctx context.Context, from, to *session, cut storage.Cut) error {
	term := ix.lease.Term()
	epoch, err := ix.catalog.make(to.maxOwned, func(store storage.Store) (uint64, error) {
		return store.Fork(ctx, from.ID, to.ID, to.encode(), cut)
	})
	from.missed(err)
	return to.noteMade(epoch, term, err)
}

// amend changes the head of a session, first in the store and then in memory. It waits while a
// chunk, a completion or a dry run uses the session's state. It does not wait for the end of a
// request that feeds the session.
func (ix *index) amend(ctx context.Context, s *session, r PatchRequest) error {
	if r.Name != nil {
		ix.sweep() // an expired session may have the name
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.currentLocked(ctx); err != nil {
		return err
	}
	next := s.head.patched(r)
	if err := ix.checkHead(s, &next); err != nil {
		return err
	}
	if err := s.alive(); err != nil {
		return err
	}
	named := func(bool) {}
	if r.Name != nil {
		var err error
		name, _ := ix.catalog.reserves(next.Name, 0)
		if named, err = ix.registry.Rename(s.entry, name); err != nil {
			return &NameTakenError{next.Name}
		}
	}
	err := s.setHeadLocked(ctx, &next)
	named(err == nil)
	switch {
	case errors.Is(err, storage.ErrTaken):
		return &NameTakenError{next.Name}
	case errors.Is(err, storage.ErrUnknown):
		// A new claim reads the stored head. If it fails, the next request that needs the state
		// claims the session.
		_ = s.claimLocked(ctx)
		return err
	case err != nil:
		return err
	}
	ix.registry.SetTTL(s.entry, next.TTL)
	return nil
}

// checkHead returns an error if the new head is invalid or needs too much disk space.
func (ix *index) checkHead(s *session, next *head) error {
	if err := cmp.Or(checkNameOrNone(next.Name), next.checkKept()); err != nil {
		return err
	}
	size := len(next.encode())
	if size > storage.MaxHeadBytes {
		return &FieldError{"labels", fmt.Sprintf("labels and other fields of %d bytes", size),
			fmt.Sprintf("at most %d bytes", storage.MaxHeadBytes)}
	}
	if more := size - len(s.encode()); more > 0 {
		return ix.disk.Room(s.Owner, int64(more))
	}
	return nil
}

// toFollow returns the session that a new shadow will follow. The caller must call done.
func (ix *index) toFollow(
	ctx context.Context, who Caller, id string,
) (of *session, done func(), err error) {
	of, done, err = ix.use(who, id)
	if err == ErrNotFound {
		return nil, nil, unfollowable(strconv.Quote(id), "the id or the name of a session")
	}
	if err != nil {
		return nil, nil, err
	}
	err = of.checkWhole(ctx)
	if err == nil && of.shadowOf() != "" {
		err = unfollowable("a shadow", "a session that is not a shadow")
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return of, done, nil
}

// follow makes session s a shadow of another session. The other session's state is locked, so that
// its text is not trimmed between the check and the beginning of the following.
func (ix *index) follow(ctx context.Context, s, of *session) error {
	if err := of.lock(ctx); err != nil {
		return err
	}
	defer of.unlock()
	if err := of.checkWhole(ctx); err != nil {
		return err
	}
	return s.follow(of)
}

func unfollowable(found, want string) error { return &FieldError{"shadow_of", found, want} }

// checkWhole returns an error if the beginning of the session's text was trimmed.
func (s *session) checkWhole(ctx context.Context) error {
	found, err := s.get(ctx)
	if err == nil && found.Start > 0 {
		err = unfollowable(
			fmt.Sprintf("a session without its text before offset %d", found.Start),
			"a session that still has all of its text")
	}
	return err
}
