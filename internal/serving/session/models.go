package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
)

// models are the models that a Manager serves, the default first, without duplicates.
type models []*servedModel

// withHash returns the model with a content hash; nil if it is not served.
func (ms models) withHash(hash string) *servedModel {
	i := slices.IndexFunc(ms, func(m *servedModel) bool { return m.Hash() == hash })
	if i < 0 {
		return nil
	}
	return ms[i]
}

// named returns the model that a request names; see model.WhichNamed. "" is the default. A name
// that several models share is refused with a *FieldError.
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

// SharedName returns the text that says that several models have the name.
func SharedName(name string, models int) string {
	return fmt.Sprintf("%q, a name that %d models share", name, models)
}

// check refuses duplicate models: a session could not tell which one it runs on.
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

// live reports whether a model is in memory.
func (ms models) live(m *model.Model) bool {
	return slices.ContainsFunc(ms, func(s *servedModel) bool { return s.current() == m })
}
