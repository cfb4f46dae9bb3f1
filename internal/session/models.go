package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/model"
)

// models are those that a Manager serves, the default first. None is there twice.
type models []*model.Model

// withHash finds a model by its content hash; nil if it is not served.
func (ms models) withHash(hash string) *model.Model {
	i := slices.IndexFunc(ms, func(m *model.Model) bool { return m.Hash() == hash })
	if i < 0 {
		return nil
	}
	return ms[i]
}

// named finds the model that a request names, by its id or by the name that its file has; "" is the
// default. The error is a *FieldError.
func (ms models) named(name string) (*model.Model, error) {
	if name == "" {
		return ms[0], nil
	}
	for _, m := range ms {
		if name == m.ID() || name == m.Name {
			return m, nil
		}
	}
	return nil, &FieldError{"model", strconv.Quote(name), ms.names()}
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
