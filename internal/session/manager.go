package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/internal/stream"
)

// Manager keeps the sessions of one model in a store, and the states of those in use in memory. All its methods may be called at once. A Manager
// that is no longer needed is drained, which ends its threads.
type Manager struct {
	model     *model.Model
	about     ModelInfo
	options   Options
	scheduler *scheduler
	waiting   queue

	resident bool          // the store is this process's memory: sessions stay hot
	copies   chan struct{} // holds a token for every snapshot being written or read

	now  func() time.Time
	last sync.Once // what is done when the Manager has drained

	mu       sync.Mutex
	sessions map[string]*session
	places   int                   // sessions, and those being made
	owned    map[string]int        // the same by owner
	hot      map[*session]struct{} // those that have memory reserved
	memory   int64                 // reserved by all of them
	lent     int64                 // memory of exports and imports under way
	turns    uint64                // the last session.turn given out
	room     chan struct{}         // closed when there may be memory for those that wait; nil: nobody does
	draining bool
	working  int           // operations under way that a drain waits for
	drained  chan struct{} // closed when it drains and none is left
}

// NewManager returns a Manager of the sessions that the store has.
func NewManager(m *model.Model, o Options) (*Manager, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	defaults, err := effective(m, Settings{"chunk": m.Chunk})
	if err != nil {
		return nil, fmt.Errorf("session: model %s: %w", m.Name, err)
	}
	mg := &Manager{
		model:     m,
		options:   o,
		scheduler: newScheduler(m, o.Threads),
		waiting:   queue{most: o.MaxQueue},
		now:       time.Now,
		copies:    make(chan struct{}, o.Threads),
		sessions:  map[string]*session{},
		owned:     map[string]int{},
		hot:       map[*session]struct{}{},
		drained:   make(chan struct{}),
	}
	_, mg.resident = o.Store.(*sessionlog.Memory)
	if mg.about, err = describe(m, defaults); err != nil {
		return nil, err
	}
	if err := mg.load(context.Background()); err != nil {
		return nil, err
	}
	return mg, nil
}

// Failed is closed when the store has failed for good: all requests get ErrStore, and the process should end with Err.
func (mg *Manager) Failed() <-chan struct{} { return mg.options.Store.Failed() }

// Err is why the store has failed, nil if it has not.
func (mg *Manager) Err() error { return mg.options.Store.Err() }

// Create makes a session, which belongs to the caller's key. It returns a *FieldError for settings that cannot be used, a *QuotaError when the key
// has as many as it may, and ErrFull when there is no room.
func (mg *Manager) Create(ctx context.Context, who Caller, r CreateRequest) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	set, err := effective(mg.model, r.Settings)
	if err != nil {
		return Info{}, err
	}
	if err := checkRequest(r); err != nil {
		return Info{}, err
	}
	set.Seed = seedOr(r.Seed)
	id, err := uuid.NewV7() // ordered by time of creation, and so are lists
	if err != nil {
		return Info{}, fmt.Errorf("session: id: %w", err)
	}
	return mg.insert(ctx, who, mg.fresh(who, id.String(), set, r))
}

// fresh is a session that is not in the store yet.
func (mg *Manager) fresh(who Caller, id string, set stream.Settings, r CreateRequest) *session {
	now := mg.now().UTC()
	h := head{Version: headVersion, ID: id, Complete: true, Owner: who.Key, Created: now, Model: modelName{mg.model.Name, mg.model.Hash()},
		Settings: set, Labels: maps.Clone(r.Labels), TTL: r.TTL, History: r.History, Numerics: []numerics{{Name: mg.model.Arithmetic.Numerics()}}}
	if h.History == "" {
		h.History = HistoryFull
	}
	return &session{head: h, lastUsed: now, state: make(chan struct{}, 1)}
}

// insert makes an empty session.
func (mg *Manager) insert(ctx context.Context, who Caller, s *session) (Info, error) {
	return mg.build(ctx, who, s, 0, func() error {
		if mg.resident { // it is made now, or there is no room for it
			return mg.warm(ctx, s)
		}
		return nil
	})
}

// build makes a session, in the store first, and then lets fill do what is to be done before anybody sees it. If that fails nothing is left.
func (mg *Manager) build(ctx context.Context, who Caller, s *session, start int64, fill func() error) (Info, error) {
	if err := mg.admit(who, s, stream.StateBytes(mg.model, s.Settings)); err != nil {
		return Info{}, err
	}
	err := mg.store(ctx, s, start, fill)
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if err != nil {
		s.gone = true
		mg.forgo(s)
		return Info{}, err
	}
	mg.sessions[s.ID] = s
	return s.info(who), nil
}

func (mg *Manager) store(ctx context.Context, s *session, start int64, fill func() error) (err error) {
	if s.epoch, err = mg.options.Store.Create(ctx, s.ID, s.encode(), start); err != nil {
		return mg.storeError("making session "+s.ID, err)
	}
	if err = fill(); err == nil && !s.Complete {
		s.Complete = true
		if err = mg.options.Store.SetHead(ctx, s.ID, s.epoch, s.encode()); err != nil {
			err = mg.storeError("completing session "+s.ID, err)
		}
	}
	if err != nil {
		mg.erase([]string{s.ID})
	}
	return err
}

// Get describes a session, without waiting for what is at work on it.
func (mg *Manager) Get(who Caller, id string) (Info, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s, err := mg.find(who, id)
	if err != nil {
		return Info{}, err
	}
	return s.info(who), nil
}

// List describes up to limit sessions that the caller sees (0: ListDefault; at most ListMax), in the order of ids, which is that of creation.
// It starts after the id given; next is where the next page starts after, "" on the last page. Its error is ErrStore.
func (mg *Manager) List(who Caller, after string, limit int) (page []Info, next string, err error) {
	if limit < 1 {
		limit = ListDefault
	}
	limit = min(limit, ListMax)
	mg.sweep()
	if err := mg.options.Store.Err(); err != nil {
		return nil, "", mg.storeError("listing sessions", err)
	}
	mg.mu.Lock()
	defer mg.mu.Unlock()
	var ids []string
	for id, s := range mg.sessions {
		if who.sees(s.Owner) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	first, found := slices.BinarySearch(ids, after)
	if found {
		first++
	}
	for _, id := range ids[first:min(len(ids), first+limit)] {
		page = append(page, mg.sessions[id].info(who))
	}
	if first+limit < len(ids) {
		next = ids[first+limit-1]
	}
	return page, next, nil
}

// Delete removes a session with everything that was ever kept for it. A request that is at work on it ends with ErrNotFound after its chunk.
func (mg *Manager) Delete(who Caller, id string) error {
	mg.mu.Lock()
	s, err := mg.find(who, id)
	mg.mu.Unlock()
	if err != nil {
		return err
	}
	ctx := context.Background() // the erasing of what is gone has to come to its end
	err = mg.options.Store.Delete(ctx, id, 0)
	if err != nil {
		if _, still := mg.options.Store.Get(ctx, id); !errors.Is(still, sessionlog.ErrNotFound) {
			return mg.storeError("deleting session "+id, err)
		}
	}
	mg.mu.Lock()
	mg.remove(s)
	mg.mu.Unlock()
	if err != nil {
		return mg.storeError("deleting session "+id, err)
	}
	return nil
}

// enter begins an operation that a drain waits for.
func (mg *Manager) enter() error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if mg.draining {
		return ErrDraining
	}
	mg.working++
	return nil
}

func (mg *Manager) leave() {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	mg.working--
	mg.endIfDrained()
}

// endIfDrained needs mu.
func (mg *Manager) endIfDrained() {
	if mg.draining && mg.working == 0 {
		mg.scheduler.close()
		close(mg.drained)
	}
}

// Drain refuses new work, waits for the chunks and completions under way, and ends the threads. A request that is feeding a session ends with
// ErrDraining after its chunk. Then it takes snapshots, so that the next start has little to compute again. When the context ends the wait, what is
// under way goes on, and the threads end with it. Sessions can still be looked at and deleted.
func (mg *Manager) Drain(ctx context.Context) error {
	mg.mu.Lock()
	if !mg.draining {
		mg.draining = true
		mg.endIfDrained()
	}
	mg.mu.Unlock()
	select {
	case <-mg.drained:
		mg.last.Do(func() { mg.keepAll(ctx) })
		return nil
	default:
	}
	select {
	case <-mg.drained:
		mg.last.Do(func() { mg.keepAll(ctx) })
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session: drain: chunks are still under way: %w", ctx.Err())
	}
}
