package stream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
)

// Methods of adaptation.
const (
	Static     = "static"      // no adaptation
	SparseMeta = "sparse-meta" // fast weights of the branches, written by meta-learners
	DynamicSGD = "dynamic-sgd" // dynamic evaluation: gradient descent on all weights
	DynamicRMS = "dynamic-rms" // like DynamicSGD, scaled by gradient statistics of the model
	Cache      = "cache"       // a continuous cache of hidden states beside the static model
	Counts     = "counts"      // no network: the companion's counts alone, or nothing
)

// Methods lists the methods of models that have a network: all except Counts.
func Methods() []string { return []string{Static, SparseMeta, DynamicSGD, DynamicRMS, Cache} }

// AllMethods lists all methods.
func AllMethods() []string { return append(Methods(), Counts) }

// MaxChunk is the maximum number of tokens between two updates. The memory of a worker's
// activations grows with the chunk.
const MaxChunk = 1024

// SkipBelowDefault is in bits per token. It skips two of three chunks of a log, one of ten chunks
// of code, and no chunk of prose. Skipping costs at most .002 bits per byte (docs/speed.md).
const SkipBelowDefault = 0.75

// Settings say how a stream adapts. Settings that belong only to other methods have no effect.
// Every stored session contains their JSON (docs/formats.md): adding, moving or renaming a field
// requires a new version of that format. Table lists the settings that users can choose.
type Settings struct {
	Method   string                     `json:"method"`
	Chunk    int                        `json:"chunk"`    // tokens between two updates
	Adapt    sparsemeta.Settings        `json:"adapt"`    // settings of SparseMeta
	SGD      sparsemeta.DynamicSettings `json:"sgd"`      // settings of DynamicSGD
	RMS      sparsemeta.DynamicSettings `json:"rms"`      // settings of DynamicRMS
	Cache    sparsemeta.CacheSettings   `json:"cache"`    // settings of Cache
	Baseline bool                       `json:"baseline"` // whether the static model also scores
	Seed     uint64                     `json:"seed"`

	// SkipBelow is in bits per token. With SparseMeta and a companion of counts, the stream does
	// not learn a chunk that costs the network less, see Worker.teaches. Streams made before this
	// setting existed have 0, and learn every chunk.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes the model's distribution with statistics of the text so far. For a model of
	// bytes, these are counts (package companion), with a table of CompanionBytes. For a model of
	// words, they are a cache with the settings in Cache. Streams made before this setting existed
	// have no companion.
	Companion      bool `json:"companion,omitempty"`
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	// CompanionStatic says that the static model's distribution is mixed in, too. It has an effect
	// only if the companion is counts and the method is SparseMeta.
	CompanionStatic bool `json:"companion_static,omitempty"`
}

// Defaults returns the settings for which the model's meta-learners were trained, and for which the
// other methods were tuned.
func Defaults(m *model.Model) Settings {
	s := Settings{Method: Static, Chunk: m.Chunk}
	if m.Uniform {
		s.Method = Counts
	}
	SetRivals(&s, m.Rivals)
	s.Companion, s.CompanionBytes = true, m.CompanionBytes
	s.CompanionStatic = !m.CompanionAlone
	if m.Learner != nil {
		s.SkipBelow = SkipBelowDefault
		s.Method, s.Adapt = SparseMeta, m.Learner.Settings
		s.Adapt.Gammas = slices.Clone(s.Adapt.Gammas)
	}
	return s
}

// DefaultsFor returns the model's defaults for a method.
func DefaultsFor(m *model.Model, method string) Settings {
	s := Defaults(m)
	s.Method = method
	return s
}

// HasStatic reports whether a stream with these settings can continue under the static model. It
// can if it has a baseline, which includes the static model's memory. It also can if its method
// writes no fast weights.
func (s *Settings) HasStatic() bool {
	return s.Baseline || s.Method == Static || s.Method == Cache
}

// SetRivals copies the settings of the methods that sparse-meta is compared with into s.
func SetRivals(s *Settings, r model.Rivals) { s.SGD, s.RMS, s.Cache = r.SGD, r.RMS, r.Cache }

// RivalsOf returns the settings of the methods that sparse-meta is compared with.
func RivalsOf(s Settings) model.Rivals {
	return model.Rivals{SGD: s.SGD, RMS: s.RMS, Cache: s.Cache}
}

// Dynamic returns the method's settings of dynamic evaluation: RMS for DynamicRMS, SGD for every
// other method.
func (s *Settings) Dynamic() *sparsemeta.DynamicSettings {
	if s.Method == DynamicRMS {
		return &s.RMS
	}
	return &s.SGD
}

// Supports returns an error if the model cannot adapt by a method.
func Supports(m *model.Model, method string) error {
	if !slices.Contains(AllMethods(), method) {
		return fmt.Errorf("method is %q, expected %s", method, strings.Join(AllMethods(), ", "))
	}
	switch what := lacks(m, method); what {
	case "":
		return nil
	case statistics:
		return fmt.Errorf(
			"method is %s, but model %s has no %s (tensors gradient.rms.* in its file)", method,
			m.Name, what)
	default:
		return fmt.Errorf("method is %s, but model %s has no %s", method, m.Name, what)
	}
}

// Parts of a model that a method may need.
const (
	metaLearners = "meta-learners"
	statistics   = "gradient statistics"
	network      = "network"
	noNetwork    = "companion that could replace its network"
)

// lacks returns the model part that the method requires and the model lacks, or "".
func lacks(m *model.Model, method string) string {
	switch {
	case m.Uniform && method != Counts:
		return network
	case !m.Uniform && method == Counts:
		return noNetwork
	case method == SparseMeta && m.Learner == nil:
		return metaLearners
	case method == DynamicRMS && m.Statistics == nil:
		return statistics
	}
	return ""
}

// ChunkMin returns the minimum number of tokens in a chunk of a model. A chunk of words may begin
// with tokens that did not fit into the chunk before. Room for one more token ensures that each
// chunk reads at least one byte of text.
func ChunkMin(m *model.Model) int { return m.Tokenizer.DueMax() + 1 }

// companion returns the settings of the stream's companion. If the method writes no fast weights,
// the static model is the only network that the companion mixes.
func (s *Settings) companion() companion.Settings {
	set := companion.Settings{TableBytes: s.CompanionBytes, Networks: 1}
	if s.CompanionStatic && s.Method == SparseMeta && s.Adapt.P > 0 {
		set.Networks = 2
	}
	return set
}

// runsStatic reports whether the static model also reads the stream's text, for the companion or
// as the baseline.
func (s *Settings) runsStatic(m *model.Model) bool {
	return s.Baseline || s.counts(m) && s.companion().Networks > 1
}

// layersAlike returns how many of the lowest layers have the same inputs in the static and the
// adaptive model.
func (s *Settings) layersAlike(m *model.Model) int {
	adapts := func(int) bool { return false }
	switch s.Method {
	case SparseMeta:
		adapts = m.IsBranch
	case DynamicSGD, DynamicRMS:
		adapts = func(int) bool { return true }
	}
	return m.LM.LayersAlike(adapts)
}

// caches reports whether a stream has a cache, either as its method or as its companion.
func (s *Settings) caches(m *model.Model) bool {
	return s.Method == Cache || s.Companion && m.OfWords()
}

// counts reports whether a stream has a companion of counts.
func (s *Settings) counts(m *model.Model) bool { return s.Companion && !m.OfWords() }

// HasCompanion reports whether a stream mixes its network with a companion. A stream of words with
// the method Cache has no companion, since the method already is the same cache.
func (s *Settings) HasCompanion(m *model.Model) bool {
	return s.Companion && !(m.OfWords() && s.Method == Cache)
}

// Validate returns an error for the first setting of the method that does not fit the model.
func (s Settings) Validate(m *model.Model) error {
	if err := Supports(m, s.Method); err != nil {
		return err
	}
	if s.Baseline && m.Uniform {
		return fmt.Errorf("baseline is true, expected false: model %s has no %s", m.Name, network)
	}
	if least := ChunkMin(m); s.Chunk < least || s.Chunk > MaxChunk {
		return fmt.Errorf("chunk is %d, expected %d to %d", s.Chunk, least, MaxChunk)
	}
	if s.Companion && !m.OfWords() {
		if err := s.companion().Validate(); err != nil {
			return err
		}
	}
	if s.caches(m) {
		if err := s.Cache.Validate(); err != nil {
			return err
		}
	}
	switch s.Method {
	case SparseMeta:
		return m.Learner.Accept(s.Adapt)
	case DynamicSGD, DynamicRMS:
		return s.Dynamic().Validate()
	}
	return nil
}

// companionWarm is the setting Warm of a companion's cache. It gives the cache little weight in a
// new session, whose few positions predict poorly. The value was found on validation text.
const companionWarm = 200

// slopesOfByte is the number of slopes that a stream keeps for a pending byte.
const slopesOfByte = len(companion.Slopes{})

// learnsMixture reports whether the fast weights of a stream learn from the mixture's loss.
func (s *Settings) learnsMixture(m *model.Model) bool {
	writes := s.Method == SparseMeta || s.Method == DynamicSGD || s.Method == DynamicRMS
	return writes && s.counts(m) && m.Mixture > 0
}

// slopesBytes returns the bytes of memory of the slopes that a stream keeps.
func (s *Settings) slopesBytes(m *model.Model) int64 {
	if !s.learnsMixture(m) {
		return 0
	}
	return 4 * int64(slopesOfByte) * int64(s.Chunk)
}
