package lmserve

import (
	"slices"

	"github.com/lmserve/lmserve/sparsemeta"
)

// The methods by which a stream adapts the model.
const (
	MethodStatic     = "static"      // no adaptation
	MethodSparseMeta = "sparse-meta" // fast weights, written by the model's meta-learners
	// dynamic evaluation, which is gradient descent on all weights
	MethodDynamicSGD = "dynamic-sgd"
	// dynamic evaluation with steps scaled by gradient statistics
	MethodDynamicRMS = "dynamic-rms"
	MethodCache      = "cache"  // a continuous cache of hidden states
	MethodCounts     = "counts" // no network, only counts of the stream's text
)

// Settings say how a stream learns. Fields that belong to a method other than Method have no
// effect. Model.Settings returns good settings as a starting point. docs/settings.md lists the
// range of each field.
type Settings struct {
	Method string `json:"method"` // a constant such as MethodStatic
	Chunk  int    `json:"chunk"`  // tokens between two updates, 1 to 1024

	Adapt sparsemeta.Settings        `json:"adapt"` // for MethodSparseMeta
	SGD   sparsemeta.DynamicSettings `json:"sgd"`   // for MethodDynamicSGD
	RMS   sparsemeta.DynamicSettings `json:"rms"`   // for MethodDynamicRMS
	// for MethodCache, and for the companion of a word model
	Cache sparsemeta.CacheSettings `json:"cache"`

	// Baseline also scores the text with the static model; see Stream.Baseline.
	Baseline bool `json:"baseline"`
	// Seed determines the random masks of MethodSparseMeta.
	Seed uint64 `json:"seed"`
	// SkipBelow is a threshold in bits per token, for MethodSparseMeta with a companion of counts.
	// The stream does not learn a chunk that costs the network fewer bits.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes a byte model with counts of the stream's text, or a word model with a cache.
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
