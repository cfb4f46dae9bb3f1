package session

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// servedModel is a model that sessions may run on. The default model stays in memory. Of another
// model only the description stays in memory. Its weights are loaded for the first state that needs
// them. They may be dropped when no state is left.
type servedModel struct {
	*model.Model // the whole default model; of another model only the description

	id       string        // ModelInfo.ID
	source   *model.Source // nil for the default model
	memory   *budget.Base
	forget   func(*model.Model) // gets weights that nothing needs in memory
	observer Observer

	flight singleflight.Group

	mu struct {
		sync.Mutex
		loaded *model.Model // nil while the weights are not in memory
		drops  int          // number of drops of loaded
	}
}

// residentModel returns a model whose weights stay in memory.
func residentModel(m *model.Model) *servedModel {
	s := &servedModel{Model: m, id: m.ID()}
	s.mu.loaded = m
	return s
}

// sourcedModel returns a model whose weights are loaded and dropped.
func sourcedModel(from *model.Source) *servedModel {
	return &servedModel{Model: from.Outline, id: from.Outline.ID(), source: from}
}

// base returns the memory that the model's states share in the budget; nil if they share none.
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

// comes returns how much of the budget the weights need when they are loaded.
func (s *servedModel) comes() int64 {
	if s.source == nil {
		return 0
	}
	return s.source.Bytes
}

// current returns the model in memory, nil if it is not loaded.
func (s *servedModel) current() *model.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.loaded
}

// weights returns the model with its weights; the caller has reserved memory for a state. It loads
// the weights if they are not in memory, once for all concurrent callers; the context ends the
// wait. A failed load returns a *ModelLoadError.
func (s *servedModel) weights(ctx context.Context) (*model.Model, error) {
	if m := s.current(); m != nil {
		return m, nil
	}
	loading := s.flight.DoChan("", func() (any, error) { return s.load() })
	select {
	case done := <-loading:
		if done.Err != nil {
			return nil, done.Err
		}
		return done.Val.(*model.Model), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load loads the weights. They stay unless they are dropped before the loading has ended.
func (s *servedModel) load() (*model.Model, error) {
	s.mu.Lock()
	loaded, drops := s.mu.loaded, s.mu.drops
	s.mu.Unlock()
	if loaded != nil {
		return loaded, nil
	}
	begun := time.Now()
	m, err := s.source.Load()
	s.observer.Loaded(s.id, time.Since(begun), err)
	if err != nil {
		return nil, &ModelLoadError{ID: s.id, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.drops == drops {
		s.mu.loaded = m
	}
	return m, nil
}

// drop releases the weights, whose memory was given to others. The budget calls it under its lock.
func (s *servedModel) drop() {
	s.mu.Lock()
	dropped := s.mu.loaded
	s.mu.loaded = nil
	s.mu.drops++
	s.mu.Unlock()
	if dropped != nil {
		s.observer.Dropped(s.id)
		// forget may wait for a worker that is being made, and the budget must not wait
		go s.forget(dropped)
	}
}
