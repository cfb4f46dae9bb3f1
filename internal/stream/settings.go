package stream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
)

// Methods of adaptation.
const (
	Static     = "static"      // none
	SparseMeta = "sparse-meta" // fast weights of the branches, written by the model's meta-learners
	DynamicSGD = "dynamic-sgd" // dynamic evaluation: gradient descent on all weights
	DynamicRMS = "dynamic-rms" // the same, scaled by the model's gradient statistics
	Cache      = "cache"       // a continuous cache of hidden states beside the static model
)

// Methods lists them all.
func Methods() []string { return []string{Static, SparseMeta, DynamicSGD, DynamicRMS, Cache} }

// MaxChunk is the largest number of tokens between two updates: a worker's
// activations grow with it.
const MaxChunk = 1024

// Settings say how a stream adapts. Those of the other methods have no effect.
type Settings struct {
	Method   string                     `json:"method"`
	Chunk    int                        `json:"chunk"`    // tokens between two updates
	Adapt    sparsemeta.Settings        `json:"adapt"`    // of SparseMeta
	SGD      sparsemeta.DynamicSettings `json:"sgd"`      // of DynamicSGD
	RMS      sparsemeta.DynamicSettings `json:"rms"`      // of DynamicRMS
	Cache    sparsemeta.CacheSettings   `json:"cache"`    // of Cache
	Baseline bool                       `json:"baseline"` // also score with the static model
	Seed     uint64                     `json:"seed"`
}

// Defaults are the settings the model's meta-learners were trained for, and
// those that its other methods were tuned for.
func Defaults(m *model.Model) Settings {
	s := Settings{Method: Static, Chunk: m.Chunk, SGD: m.Rivals.SGD, RMS: m.Rivals.RMS, Cache: m.Rivals.Cache}
	if m.Learner != nil {
		s.Method, s.Adapt = SparseMeta, m.Learner.Settings
		s.Adapt.Gammas = slices.Clone(s.Adapt.Gammas)
	}
	return s
}

// DefaultsFor are the model's defaults for one of the methods.
func DefaultsFor(m *model.Model, method string) Settings {
	s := Defaults(m)
	s.Method = method
	return s
}

// Dynamic is the part that dynamic evaluation goes by: RMS for that method, else SGD.
func (s *Settings) Dynamic() *sparsemeta.DynamicSettings {
	if s.Method == DynamicRMS {
		return &s.RMS
	}
	return &s.SGD
}

// Supports says why the model cannot adapt by a method; nil if it can.
func Supports(m *model.Model, method string) error {
	switch {
	case !slices.Contains(Methods(), method):
		return fmt.Errorf("method is %q, expected %s", method, strings.Join(Methods(), ", "))
	case method == SparseMeta && m.Learner == nil:
		return fmt.Errorf("method is %s, but model %s has no meta-learners", method, m.Name)
	case method == DynamicRMS && m.Statistics == nil:
		return fmt.Errorf("method is %s, but model %s has no gradient statistics (tensors gradient.rms.* of its file)", method, m.Name)
	}
	return nil
}

// Validate reports the first setting of the method that does not fit the model.
func (s Settings) Validate(m *model.Model) error {
	if err := Supports(m, s.Method); err != nil {
		return err
	}
	if s.Chunk < 1 || s.Chunk > MaxChunk {
		return fmt.Errorf("chunk is %d, expected 1 to %d", s.Chunk, MaxChunk)
	}
	switch s.Method {
	case SparseMeta:
		return m.Learner.Accept(s.Adapt)
	case DynamicSGD, DynamicRMS:
		return s.Dynamic().Validate()
	case Cache:
		return s.Cache.Validate()
	}
	return nil
}
