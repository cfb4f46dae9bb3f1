package model

import (
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Outline returns a copy of the model without its large arrays: slow weights, gradient statistics
// and input scales of the meta-learners. The copy keeps the model's hash. An outline suffices to
// check settings and files, but not to compute.
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
	Bytes   int64 // the model's WeightsBytes

	load func() (*Model, error)
}

// NewSource loads a model once to make its outline. It also returns the loaded model, which the
// caller may drop.
func NewSource(load func() (*Model, error)) (*Source, *Model, error) {
	m, err := load()
	if err != nil {
		return nil, nil, err
	}
	return &Source{Outline: m.Outline(), Bytes: m.WeightsBytes(), load: load}, m, nil
}

// Load loads the model. It returns ErrOther if the model's hash has changed since NewSource.
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
