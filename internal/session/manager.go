package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// Manager keeps the live sessions of one model. All its methods may be called at once. A Manager that is no longer needed is drained, which
// ends its threads.
type Manager struct {
	model     *model.Model
	about     ModelInfo
	options   Options
	scheduler *scheduler
	waiting   queue

	now    func() time.Time
	newLog func() Log

	mu       sync.Mutex
	sessions map[string]*session
	owned    map[string]int // live sessions by owner
	memory   int64          // reserved by all sessions
	draining bool
	working  int           // operations under way that a drain waits for
	drained  chan struct{} // closed when it drains and none is left
}

// NewManager returns a Manager without sessions.
func NewManager(m *model.Model, o Options) (*Manager, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	defaults, err := effective(m, Settings{Chunk: m.Chunk})
	if err != nil {
		return nil, fmt.Errorf("session: model %s: %w", m.Name, err)
	}
	mg := &Manager{
		model:     m,
		options:   o,
		scheduler: newScheduler(m, o.Threads),
		waiting:   queue{most: o.MaxQueue},
		now:       time.Now,
		newLog:    func() Log { return newMemoryLog() },
		sessions:  map[string]*session{},
		owned:     map[string]int{},
		drained:   make(chan struct{}),
	}
	mg.about, err = describe(m, reported(defaults))
	return mg, err
}

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
	if err := mg.admit(who); err != nil { // before the state is made: it is large
		return Info{}, err
	}
	id, err := uuid.NewV7() // ordered by time of creation, and so are lists
	if err != nil {
		return Info{}, fmt.Errorf("session: id: %w", err)
	}
	now := mg.now().UTC()
	s := &session{id: id.String(), owner: who.Key, created: now, lastUsed: now, settings: set, labels: maps.Clone(r.Labels), ttl: r.TTL,
		state: make(chan struct{}, 1), stream: stream.New(mg.model, set), log: mg.newLog()}
	s.reserved = s.stream.MemoryBytes() + logBlockBytes
	return mg.insert(who, s)
}

func (mg *Manager) insert(who Caller, s *session) (Info, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	if err := mg.roomFor(who, s.reserved); err != nil {
		return Info{}, err
	}
	mg.sessions[s.id] = s
	mg.owned[s.owner]++
	mg.memory += s.reserved
	return s.info(who, mg.about.ID, kernel.Numerics()), nil
}

// Get describes a session, without waiting for what is at work on it.
func (mg *Manager) Get(who Caller, id string) (Info, error) {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s, err := mg.find(who, id)
	if err != nil {
		return Info{}, err
	}
	return s.info(who, mg.about.ID, kernel.Numerics()), nil
}

// List describes up to limit sessions that the caller sees (0: ListDefault; at most ListMax), in the order of ids, which is that of creation.
// It starts after the id given; next is where the next page starts after, "" on the last page.
func (mg *Manager) List(who Caller, after string, limit int) (page []Info, next string) {
	if limit < 1 {
		limit = ListDefault
	}
	limit = min(limit, ListMax)
	mg.mu.Lock()
	defer mg.mu.Unlock()
	mg.expire()
	var ids []string
	for id, s := range mg.sessions {
		if who.sees(s.owner) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	first, found := slices.BinarySearch(ids, after)
	if found {
		first++
	}
	for _, id := range ids[first:min(len(ids), first+limit)] {
		page = append(page, mg.sessions[id].info(who, mg.about.ID, kernel.Numerics()))
	}
	if first+limit < len(ids) {
		next = ids[first+limit-1]
	}
	return page, next
}

// Delete forgets a session. A request that is at work on it ends with ErrNotFound after its chunk.
func (mg *Manager) Delete(who Caller, id string) error {
	mg.mu.Lock()
	defer mg.mu.Unlock()
	s, err := mg.find(who, id)
	if err != nil {
		return err
	}
	mg.remove(s)
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
// ErrDraining after its chunk. When the context ends the wait, what is under way goes on, and the threads end with it. Sessions can still be
// looked at and deleted.
func (mg *Manager) Drain(ctx context.Context) error {
	mg.mu.Lock()
	if !mg.draining {
		mg.draining = true
		mg.endIfDrained()
	}
	mg.mu.Unlock()
	select {
	case <-mg.drained:
		return nil
	default:
	}
	select {
	case <-mg.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session: drain: chunks are still under way: %w", ctx.Err())
	}
}
