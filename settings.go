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
	MethodDynamicRMS = "dynamic-rms" // the same, scaled by the model's gradient statistics
	MethodCache      = "cache"       // a continuous cache of hidden states
	MethodCounts     = "counts"      // no network: the companion's counts alone
)

// Settings say how a stream learns. Settings of other methods than Method have no effect.
// Model.Settings returns good settings as a starting point. docs/settings.md has the range of
// each.
type Settings struct {
	Method string `json:"method"` // one of the methods above
	Chunk  int    `json:"chunk"`  // tokens between two updates, 1 to 1024

	Adapt sparsemeta.Settings        `json:"adapt"` // of MethodSparseMeta
	SGD   sparsemeta.DynamicSettings `json:"sgd"`   // of MethodDynamicSGD
	RMS   sparsemeta.DynamicSettings `json:"rms"`   // of MethodDynamicRMS
	Cache sparsemeta.CacheSettings   `json:"cache"` // of MethodCache, and of a companion of words

	// Baseline scores the text with the static model, too: see Stream.Baseline.
	Baseline bool `json:"baseline"`
	// Seed determines the random masks of MethodSparseMeta.
	Seed uint64 `json:"seed"`
	// SkipBelow, of MethodSparseMeta, is in bits a token. A chunk that costs the network less is
	// not learned.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes the model with counts of the stream's text, or with a cache for a model of
	// words. The table of counts has CompanionBytes: a power of two from 64 KiB to 64 MiB.
	Companion      bool `json:"companion,omitempty"`
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	// CompanionStatic also mixes in the static model, with MethodSparseMeta.
	CompanionStatic bool `json:"companion_static,omitempty"`
}

// copy shares nothing with s, which its owner may change.
func (s Settings) copy() Settings {
	s.Adapt.Gammas = slices.Clone(s.Adapt.Gammas)
	return s
}
