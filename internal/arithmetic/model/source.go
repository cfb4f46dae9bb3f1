package model

import (
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Outline returns the model without its large arrays: slow weights, statistics of gradients and the
// scale of the meta-learners' inputs. The outline has the model's hash. Settings and files can be
// checked against the outline, but it cannot compute.
func (m *Model) Outline() *Model {
	hash := m.Hash()
	o := *m
	o.LM = &txl.Model{Config: m.LM.Config, Layout: m.LM.Layout}
	if m.Statistics != nil {
		o.Statistics = &sparsemeta.Statistics{Branches: m.Statistics.Branches}
	}
	if m.Learner != nil {
		learner := *m.Learner
		learner.Scale = nil
		o.Learner = &learner
	}
	o.hash = func() string { return hash }
	return &o
}

// WeightsBytes returns the size in memory, in bytes, of the arrays that Outline omits.
func (m *Model) WeightsBytes() int64 {
	bytes := 4 * int64(len(m.LM.W))
	if m.Statistics != nil {
		bytes += int64(len(m.Statistics.Codes))
	}
	if m.Learner != nil {
		bytes += 4 * int64(len(m.Learner.Scale))
	}
	return bytes
}

// ErrOther reports that the file of a Source now contains another model.
var ErrOther = errors.New("model: the file now contains a different model")

// Source is a model that can be loaded on demand.
type Source struct {
	Outline *Model
	Bytes   int64 // WeightsBytes() of the model

	load func() (*Model, error)
}

// NewSource loads a model once to make its outline, and returns the loaded model, too. A caller
// that does not need the model yet can drop it.
func NewSource(load func() (*Model, error)) (*Source, *Model, error) {
	m, err := load()
	if err != nil {
		return nil, nil, err
	}
	return &Source{Outline: m.Outline(), Bytes: m.WeightsBytes(), load: load}, m, nil
}

// Load loads the model. The error is ErrOther if this is not the model that NewSource loaded.
func (s *Source) Load() (*Model, error) {
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	if m.Hash() != s.Outline.Hash() {
		return nil, fmt.Errorf("%w: found %s, expected %s", ErrOther, m.ID(), s.Outline.ID())
	}
	return m, nil
}
