package session

import (
	"slices"
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

// names are the ids of all.
func (ms models) names() string {
	all := make([]string, len(ms))
	for i, m := range ms {
		all[i] = m.ID()
	}
	return strings.Join(all, ", ")
}
