package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/model"
)

// models are those that a Manager serves, the default first. None is there twice.
type models []*servedModel

// withHash finds a model by its content hash; nil if it is not served.
func (ms models) withHash(hash string) *servedModel {
	i := slices.IndexFunc(ms, func(m *servedModel) bool { return m.Hash() == hash })
	if i < 0 {
		return nil
	}
	return ms[i]
}

// named finds the model that a request names, see model.Model.Named; "" is the default. The error
// is a *FieldError.
func (ms models) named(name string) (*servedModel, error) {
	if name == "" {
		return ms[0], nil
	}
	i := slices.IndexFunc(ms, func(m *servedModel) bool { return m.Named(name) })
	if i < 0 {
		return nil, &FieldError{"model", strconv.Quote(name), ms.names()}
	}
	return ms[i], nil
}

// check refuses a model that is there twice: a session would not know which is its own.
func (ms models) check() error {
	for i, m := range ms {
		if ms[:i].withHash(m.Hash()) != nil {
			return fmt.Errorf("session: model %s is there twice", m.ID())
		}
	}
	return nil
}

// names are the ids of all.
func (ms models) names() string {
	all := make([]string, len(ms))
	for i, m := range ms {
		all[i] = m.ID()
	}
	return strings.Join(all, ", ")
}

// live tells whether a model is one of those in memory.
func (ms models) live(m *model.Model) bool {
	return slices.ContainsFunc(ms, func(s *servedModel) bool { return s.current() == m })
}
