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
	DynamicRMS = "dynamic-rms" // dynamic evaluation scaled by the model's gradient statistics
	Cache      = "cache"       // the static model with a continuous cache of hidden states
	Counts     = "counts"      // no network: the companion's counts, or a uniform distribution
)

// Methods lists the methods of models that have a network: all except Counts.
func Methods() []string { return []string{Static, SparseMeta, DynamicSGD, DynamicRMS, Cache} }

// AllMethods lists the methods of all models, including Counts.
func AllMethods() []string { return append(Methods(), Counts) }

// MaxChunk is the maximum number of tokens between two updates. The memory of a worker's
// activations grows with the chunk.
const MaxChunk = 1024

// SkipBelowDefault is the default of Settings.SkipBelow, in bits per token. With this value,
// streams skip two thirds of the chunks of a log, a tenth of the chunks of code, and no chunk of
// prose. Skipping costs at most 0.002 bits per byte (docs/speed.md).
const SkipBelowDefault = 0.75

// Settings say how a stream adapts. Fields that only other methods use have no effect. Every stored
// session contains Settings as JSON (docs/formats.md): adding, moving or renaming a field requires
// a new version of that format. Table lists the settings that users can choose.
type Settings struct {
	Method string                     `json:"method"`
	Chunk  int                        `json:"chunk"` // tokens between two updates
	Adapt  sparsemeta.Settings        `json:"adapt"`
	SGD    sparsemeta.DynamicSettings `json:"sgd"`
	RMS    sparsemeta.DynamicSettings `json:"rms"`
	Cache  sparsemeta.CacheSettings   `json:"cache"`
	// whether the static model also scores the text
	Baseline bool   `json:"baseline"`
	Seed     uint64 `json:"seed"`

	// SkipBelow is the cost, in bits per token, below which a chunk is not learned; see
	// Worker.teaches. It applies to SparseMeta with a companion of counts. Streams older than this
	// setting have 0 and learn every chunk.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes the model's distribution with statistics of the text so far. In byte models,
	// these are counts (package companion) in a table of CompanionBytes bytes. In word models, they
	// are a cache with the settings in Cache. Streams older than this setting have no companion.
	Companion      bool `json:"companion,omitempty"`
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	// CompanionStatic adds the static model's distribution to the companion's mixture. The setting
	// has an effect only for SparseMeta with a companion of counts.
	CompanionStatic bool `json:"companion_static,omitempty"`
}

// Defaults returns the settings with which the model's meta-learners were trained and the other
// methods were tuned.
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

// HasStatic reports whether a stream with these settings can continue under the static model. A
// stream with a baseline keeps the static model's memory; streams of Static and Cache have no other
// memory.
func (s *Settings) HasStatic() bool {
	return s.Baseline || s.Method == Static || s.Method == Cache
}

// SetRivals sets in s the settings of the methods other than sparse-meta.
func SetRivals(s *Settings, r model.Rivals) { s.SGD, s.RMS, s.Cache = r.SGD, r.RMS, r.Cache }

// RivalsOf returns the settings of the methods other than sparse-meta.
func RivalsOf(s Settings) model.Rivals {
	return model.Rivals{SGD: s.SGD, RMS: s.RMS, Cache: s.Cache}
}

// Dynamic returns the settings of dynamic evaluation: RMS for DynamicRMS, SGD for every other
// method.
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

const (
	metaLearners = "meta-learners"
	statistics   = "gradient statistics"
	network      = "network"
	noNetwork    = "companion that could replace its network"
)

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

// ChunkMin returns the minimum chunk length of a model, in tokens. A chunk of words may begin with
// tokens that did not fit into the previous chunk. Room for one more token lets each chunk read at
// least one byte of text.
func ChunkMin(m *model.Model) int { return m.Tokenizer.DueMax() + 1 }

// companion returns the settings of the stream's companion. Only SparseMeta with nonzero P can mix
// two networks, the adaptive and the static model.
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

// layersAlike returns the number of lowest layers whose inputs are the same in the static and the
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

func (s *Settings) caches(m *model.Model) bool {
	return s.Method == Cache || s.Companion && m.OfWords()
}

func (s *Settings) counts(m *model.Model) bool { return s.Companion && !m.OfWords() }

// HasCompanion reports whether a stream mixes its network with a companion. In a word model, the
// companion would be the cache that the method Cache already provides.
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

// companionWarm is the value of Cache.Warm for a companion's cache. It gives the cache little
// weight in a new session, in which a cache predicts poorly. The value was tuned on validation
// text.
const companionWarm = 200

const slopesOfByte = len(companion.Slopes{})

func (s *Settings) learnsMixture(m *model.Model) bool {
	writes := s.Method == SparseMeta || s.Method == DynamicSGD || s.Method == DynamicRMS
	return writes && s.counts(m) && m.Mixture > 0
}

func (s *Settings) slopesBytes(m *model.Model) int64 {
	if !s.learnsMixture(m) {
		return 0
	}
	return 4 * int64(slopesOfByte) * int64(s.Chunk)
}
