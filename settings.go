package lmserve

import (
	"slices"

	"github.com/lmserve/lmserve/sparsemeta"
)

// Methods by which a stream adapts the model.
const (
	MethodStatic     = "static"      // no adaptation
	MethodSparseMeta = "sparse-meta" // fast weights, written by the model's meta-learners
	MethodDynamicSGD = "dynamic-sgd" // dynamic evaluation: gradient descent on all weights
	MethodDynamicRMS = "dynamic-rms" // dynamic-sgd, scaled by gradient statistics
	MethodCache      = "cache"       // a continuous cache of hidden states
	MethodCounts     = "counts"      // no network: the companion's counts alone
)

// Settings say how a stream learns. Fields for a method different from Method have no effect.
// Model.Settings returns good settings as a starting point. docs/settings.md lists the range of
// each field.
type Settings struct {
	Method string `json:"method"` // one of the methods above
	Chunk  int    `json:"chunk"`  // tokens between two updates, 1 to 1024

	Adapt sparsemeta.Settings        `json:"adapt"` // for MethodSparseMeta
	SGD   sparsemeta.DynamicSettings `json:"sgd"`   // for MethodDynamicSGD
	RMS   sparsemeta.DynamicSettings `json:"rms"`   // for MethodDynamicRMS
	Cache sparsemeta.CacheSettings   `json:"cache"` // for MethodCache and companions of words

	// Baseline scores the text with the static model, too: see Stream.Baseline.
	Baseline bool `json:"baseline"`
	// Seed determines the random masks of MethodSparseMeta.
	Seed uint64 `json:"seed"`
	// SkipBelow, for MethodSparseMeta with a companion of counts, is in bits per token. The stream
	// does not learn a chunk whose cost in the network is lower.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes the model with counts of the stream's text, or a model of words with a cache.
	// The table of counts has CompanionBytes bytes: a power of two from 64 KiB to 64 MiB.
	Companion      bool `json:"companion,omitempty"`
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	// CompanionStatic, for MethodSparseMeta, adds the static model to the mixture.
	CompanionStatic bool `json:"companion_static,omitempty"`
}

// copy returns a deep copy, since the caller may change s later.
func (s Settings) copy() Settings {
	s.Adapt.Gammas = slices.Clone(s.Adapt.Gammas)
	return s
}
