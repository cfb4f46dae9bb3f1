package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// servedModels are the models of a server. The first model stays in memory. The others are loaded
// when sessions need them.
type servedModels struct {
	first  *model.Model
	others []*model.Source
}

// loadModels loads the first model and reads descriptions of the others.
func (f *serveFlags) loadModels() (s servedModels, err error) {
	names := f.models
	if len(names) == 0 {
		names = []string{""}
	}
	for i, name := range names {
		load, err := f.model.loader(name)
		if err != nil {
			return s, err
		}
		from, m, err := model.NewSource(load)
		if err != nil {
			return s, err
		}
		for k, other := range s.known() {
			if m.Hash() == other.Hash() {
				return s, usagef("--model %s: found model %s, the same as in %s; expected "+
					"different models", name, m.ID(), names[k])
			}
		}
		if i == 0 {
			s.first = m
		} else {
			s.others = append(s.others, from)
		}
	}
	return s, nil
}

// addCounts adds the model without a network, which sessions of the method counts use.
func (s *servedModels) addCounts() error {
	counts, m, err := model.NewSource(func() (*model.Model, error) { return model.Counts(), nil })
	if err != nil {
		return err
	}
	for _, other := range s.known() {
		if m.Hash() == other.Hash() {
			return nil
		}
	}
	s.others = append(s.others, counts)
	return nil
}

// known returns all models, beginning with the first. The other models are outlines without
// weights.
func (s *servedModels) known() (all []*model.Model) {
	if s.first != nil {
		all = append(all, s.first)
	}
	for _, other := range s.others {
		all = append(all, other.Outline)
	}
	return all
}

func (s *servedModels) ids() (ids []string) {
	for _, m := range s.known() {
		ids = append(ids, m.ID())
	}
	return ids
}

func (s *servedModels) second() string {
	if len(s.others) == 0 {
		return ""
	}
	return s.others[0].Outline.ID()
}

func (s *servedModels) about() string {
	var text strings.Builder
	for i, m := range s.known() {
		name := "the model"
		if i > 0 && !m.Uniform {
			fmt.Fprintf(&text, "lmserve: sessions may run on %s, too\n", m.ID())
			name = m.ID()
		}
		if m.OfWords() {
			fmt.Fprintf(&text, "lmserve: %s reads words; its vocabulary has %d tokens\n", name,
				m.Tokenizer.Vocab())
		}
	}
	return text.String()
}

// foreignSessions counts the stored sessions whose models the server lacks, and logs a single line
// about them. These sessions are intact, and can be used again when the server has their models.
type foreignSessions struct {
	report func(error) // receives every error except session.ModelError

	mu struct {
		sync.Mutex
		count  int
		models []string
	}
}

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

func (f *foreignSessions) tell(log *zap.Logger, served []string, where string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.count == 0 {
		return
	}
	log.Warn("some sessions belong to models that are not served; they are kept, but cannot be "+
		"used: add their models with --model, or use another --data-dir",
		zap.Int("sessions", f.mu.count), zap.Strings("their_models", f.mu.models),
		zap.Strings("models", served), zap.String("sessions_in", where))
}
