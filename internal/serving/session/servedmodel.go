package session

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// servedModel is a model that sessions may use. The weights of the default model stay in memory.
// The weights of another model are in memory while a state needs them, and perhaps longer. The
// description of every model stays in memory.
type servedModel struct {
	*model.Model // without weights, except for the default model

	id       string
	source   *model.Source // nil for the default model
	memory   *budget.Base
	forget   func(*model.Model)
	observer Observer

	flight singleflight.Group

	mu struct {
		sync.Mutex
		loaded *model.Model // nil while the weights are not in memory
		drops  int
	}
}

func residentModel(m *model.Model) *servedModel {
	s := &servedModel{Model: m, id: m.ID()}
	s.mu.loaded = m
	return s
}

func sourcedModel(from *model.Source) *servedModel {
	return &servedModel{Model: from.Outline, id: from.Outline.ID(), source: from}
}

// base returns the account of the weights in the memory budget, which all states of the model
// share. It returns nil if the weights are not in the budget.
func (s *servedModel) base() *budget.Base {
	if s == nil {
		return nil
	}
	return s.memory
}

func (s *servedModel) size() int64 {
	if s.source == nil {
		return s.WeightsBytes()
	}
	return s.source.Bytes
}

// comes returns how many bytes of the memory budget the loaded weights use.
func (s *servedModel) comes() int64 {
	if s.source == nil {
		return 0
	}
	return s.source.Bytes
}

// current returns the model if its weights are in memory, else nil.
func (s *servedModel) current() *model.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.loaded
}

// weights returns the model with its weights. If the weights are not in memory, they are loaded,
// once for all concurrent callers. The caller must have reserved memory for a state. If the context
// ends, the caller stops waiting. If loading fails, the error is a *ModelLoadError.
func (s *servedModel) weights(ctx context.Context) (*model.Model, error) {
	for {
		if m := s.current(); m != nil {
			return m, nil
		}
		loading := s.flight.DoChan("", func() (any, error) { return nil, s.load() })
		select {
		case done := <-loading:
			if done.Err != nil {
				return nil, done.Err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// load loads the weights. If drop is called meanwhile, load does not keep them, and a caller that
// has reserved memory since then must call load again.
func (s *servedModel) load() error {
	s.mu.Lock()
	loaded, drops := s.mu.loaded, s.mu.drops
	s.mu.Unlock()
	if loaded != nil {
		return nil
	}
	begun := time.Now()
	m, err := s.source.Load()
	s.observer.Loaded(s.id, time.Since(begun), err)
	if err != nil {
		return &ModelLoadError{ID: s.id, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.drops == drops {
		s.mu.loaded = m
	}
	return nil
}

// drop releases the weights, so that others can use their memory. The budget calls drop while the
// budget holds its own lock.
func (s *servedModel) drop() {
	s.mu.Lock()
	dropped := s.mu.loaded
	s.mu.loaded = nil
	s.mu.drops++
	s.mu.Unlock()
	if dropped != nil {
		s.observer.Dropped(s.id)
		// forget runs in a goroutine because it may block, and would then block the budget.
		go s.forget(dropped)
	}
}
