package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// models lists the models that a Manager serves, without duplicates. The first is the default.
type models []*servedModel

func (ms models) withHash(hash string) *servedModel {
	i := slices.IndexFunc(ms, func(m *servedModel) bool { return m.Hash() == hash })
	if i < 0 {
		return nil
	}
	return ms[i]
}

// named returns the model with a name from a request; see model.WhichNamed. The name "" means the
// default model. If several models have the name, the error is a *FieldError.
func (ms models) named(name string) (*servedModel, error) {
	if name == "" {
		return ms[0], nil
	}
	names := make([]string, len(ms))
	for i, m := range ms {
		names[i] = m.Name
	}
	switch which := model.WhichNamed(ms.ids(), names, name); len(which) {
	case 0:
		return nil, &FieldError{"model", strconv.Quote(name), ms.names()}
	case 1:
		return ms[which[0]], nil
	default:
		var shared models
		for _, i := range which {
			shared = append(shared, ms[i])
		}
		return nil, &FieldError{"model", SharedName(name, len(which)), "the id of one model: " +
			shared.names()}
	}
}

// SharedName returns the message that several models have the same name.
func SharedName(name string, models int) string {
	return fmt.Sprintf("%q, a name that %d models share", name, models)
}

// check returns an error if the same model is served twice. A session refers to its model by the
// content hash, which must be unique.
func (ms models) check() error {
	for i, m := range ms {
		if ms[:i].withHash(m.Hash()) != nil {
			return fmt.Errorf("session: model %s is given twice", m.ID())
		}
	}
	return nil
}

func (ms models) ids() []string {
	all := make([]string, len(ms))
	for i, m := range ms {
		all[i] = m.ID()
	}
	return all
}

func (ms models) names() string { return strings.Join(ms.ids(), ", ") }

func (ms models) live(m *model.Model) bool {
	return slices.ContainsFunc(ms, func(s *servedModel) bool { return s.current() == m })
}
