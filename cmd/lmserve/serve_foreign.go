package main

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// foreignSessions counts the sessions of other models that a store has, to be told of in one line:
// all of them are usable again with their model, and nothing is wrong with any.
type foreignSessions struct {
	report func(error) // of everything else

	mu struct {
		sync.Mutex
		count  int
		models []string
	}
}

// note takes a report of the manager of the sessions.
func (f *foreignSessions) note(err error) {
	var other *session.ModelError
	if !errors.As(err, &other) {
		f.report(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.count++
	if !slices.Contains(f.mu.models, other.Have) {
		f.mu.models = append(f.mu.models, other.Have)
	}
}

// tell logs how many there are, if there are any, and what to do.
func (f *foreignSessions) tell(log *zap.Logger, served []string, where string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.count == 0 {
		return
	}
	log.Warn("sessions of models that are not served are kept, and cannot be used: serve theirs, "+
		"too, with another --model, or give the models that are served a folder of their own with "+
		"--data-dir",
		zap.Int("sessions", f.mu.count), zap.Strings("their_models", f.mu.models),
		zap.Strings("models", served), zap.String("sessions_in", where))
}
