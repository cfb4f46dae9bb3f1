package session

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
)

// servedModel is a model that sessions may run on. The default is in memory as long as the Manager
// is. Of the others what is known is here, and the weights are in memory as long as states need
// them: they are loaded for the first state, and dropped in their turn when none is left.
type servedModel struct {
	*model.Model // of the default all, of another the outline

	id       string        // ID
	source   *model.Source // nil: the default
	memory   *budget.Base
	forget   func(*model.Model) // told of weights that nobody is to keep in memory
	observer Observer

	flight singleflight.Group

	mu struct {
		sync.Mutex
		loaded *model.Model // nil: not in memory
		drops  int          // of loaded
	}
}

// residentModel is the model whose weights are in memory anyway.
func residentModel(m *model.Model) *servedModel {
	s := &servedModel{Model: m, id: m.ID()}
	s.mu.loaded = m
	return s
}

// sourcedModel is a model whose weights come and go.
func sourcedModel(from *model.Source) *servedModel {
	return &servedModel{Model: from.Outline, id: from.Outline.ID(), source: from}
}

// base is what states of the model need of the budget beside their own memory; nil: nothing.
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

// comes is the memory that the weights take of the budget when they come.
func (s *servedModel) comes() int64 {
	if s.source == nil {
		return 0
	}
	return s.source.Bytes
}

// current is the model in memory, nil if it is not there.
func (s *servedModel) current() *model.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.loaded
}

// weights gives the model with its weights, to one who has memory for a state. It is loaded if it
// is not in memory, once for all who ask meanwhile; the context ends the wait. The error of the
// loading is a *ModelLoadError.
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

// load loads the weights, which stay unless they are dropped before they are there.
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

// drop lets go of the weights, whose memory others have now. The budget calls it under its lock.
func (s *servedModel) drop() {
	s.mu.Lock()
	dropped := s.mu.loaded
	s.mu.loaded = nil
	s.mu.drops++
	s.mu.Unlock()
	if dropped != nil {
		s.observer.Dropped(s.id)
		go s.forget(dropped) // it may wait for who makes a worker, and the budget does not
	}
}
