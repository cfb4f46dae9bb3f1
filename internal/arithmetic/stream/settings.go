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
	SparseMeta = "sparse-meta" // fast weights of the branches, written by the model's meta-learners
	DynamicSGD = "dynamic-sgd" // dynamic evaluation: gradient descent on all weights
	DynamicRMS = "dynamic-rms" // the same, scaled by the model's gradient statistics
	Cache      = "cache"       // a continuous cache of hidden states beside the static model
	Counts     = "counts"      // no network: the companion's counts alone, or nothing
)

// Methods lists those of models that have a network: all but Counts.
func Methods() []string { return []string{Static, SparseMeta, DynamicSGD, DynamicRMS, Cache} }

// AllMethods lists them all.
func AllMethods() []string { return append(Methods(), Counts) }

// MaxChunk is the largest number of tokens between two updates: the memory for a worker's
// activations grows with it.
const MaxChunk = 1024

// SkipBelowDefault skips two of three chunks of a log, one of ten of code and none of prose, and
// costs .002 bits a byte at most (docs/speed.md).
const SkipBelowDefault = 0.75

// Settings say how a stream adapts. The settings of other methods than Method have no effect. Their
// JSON is a part of every stored session (docs/formats.md): a field that is added, moved or renamed
// makes another version of that format. What people can choose of them is in Table.
type Settings struct {
	Method   string                     `json:"method"`
	Chunk    int                        `json:"chunk"`    // tokens between two updates
	Adapt    sparsemeta.Settings        `json:"adapt"`    // settings of SparseMeta
	SGD      sparsemeta.DynamicSettings `json:"sgd"`      // settings of DynamicSGD
	RMS      sparsemeta.DynamicSettings `json:"rms"`      // settings of DynamicRMS
	Cache    sparsemeta.CacheSettings   `json:"cache"`    // settings of Cache
	Baseline bool                       `json:"baseline"` // whether the static model scores, too
	Seed     uint64                     `json:"seed"`

	// SkipBelow is a loss of the network, in bits a token: a chunk of SparseMeta beside counts that
	// costs less is not learnt from, see Worker.teaches. Streams of before there was this setting
	// have 0, and learn from every chunk.
	SkipBelow float64 `json:"skip_below,omitempty"`

	// Companion mixes the model's distribution with what the text has had so far. Beside a model of
	// bytes it is counts, see package companion, whose table of bit histories has CompanionBytes;
	// beside one of words it is a cache with the settings of Cache. Streams of before there were
	// companions have none.
	Companion      bool `json:"companion,omitempty"`
	CompanionBytes int  `json:"companion_bytes,omitempty"`
	// CompanionStatic mixes in the distribution of the static model besides, where the companion is
	// counts and the method SparseMeta.
	CompanionStatic bool `json:"companion_static,omitempty"`
}

// Defaults are the settings that the model's meta-learners were trained for, and those that its
// other methods were tuned for.
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

// DefaultsFor are the model's defaults for one of the methods.
func DefaultsFor(m *model.Model, method string) Settings {
	s := Defaults(m)
	s.Method = method
	return s
}

// HasStatic reports whether a stream with these settings can go on under the static model: it keeps
// that model's memory as its baseline, or its method writes no fast weights.
func (s *Settings) HasStatic() bool {
	return s.Baseline || s.Method == Static || s.Method == Cache
}

// SetRivals takes over the settings of the methods that sparse-meta is compared with.
func SetRivals(s *Settings, r model.Rivals) { s.SGD, s.RMS, s.Cache = r.SGD, r.RMS, r.Cache }

// RivalsOf are the settings of the methods that sparse-meta is compared with.
func RivalsOf(s Settings) model.Rivals {
	return model.Rivals{SGD: s.SGD, RMS: s.RMS, Cache: s.Cache}
}

// Dynamic gives the settings of dynamic evaluation that the method goes by: RMS for DynamicRMS, SGD
// for every other method.
func (s *Settings) Dynamic() *sparsemeta.DynamicSettings {
	if s.Method == DynamicRMS {
		return &s.RMS
	}
	return &s.SGD
}

// Supports says why the model cannot adapt by a method; nil if it can.
func Supports(m *model.Model, method string) error {
	if !slices.Contains(AllMethods(), method) {
		return fmt.Errorf("method is %q, expected %s", method, strings.Join(AllMethods(), ", "))
	}
	switch what := lacks(m, method); what {
	case "":
		return nil
	case statistics:
		return fmt.Errorf(
			"method is %s, but model %s has no %s (tensors gradient.rms.* of its file)", method,
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
	noNetwork    = "way to do without its network"
)

// lacks is the part that a method needs and the model has not; "" if there is none.
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

// ChunkMin is the smallest chunk of a model. A chunk of words may begin with tokens for which the
// chunk before had no room; with one token more it always reads some of the text that comes, and so
// every piece of text that is accepted has bytes.
func ChunkMin(m *model.Model) int { return m.Tokenizer.DueMax() + 1 }

// companion are the settings of the stream's companion, if it has one. Of a stream that writes no
// fast weights it has one network, and the scores of the static model.
func (s *Settings) companion() companion.Settings {
	set := companion.Settings{TableBytes: s.CompanionBytes, Networks: 1}
	if s.CompanionStatic && s.Method == SparseMeta && s.Adapt.P > 0 {
		set.Networks = 2
	}
	return set
}

// runsStatic reports whether the static model reads a stream beside the one that adapts: to be
// mixed in by the companion, or as the baseline.
func (s *Settings) runsStatic(m *model.Model) bool {
	return s.Baseline || s.counts(m) && s.companion().Networks > 1
}

// layersAlike is how many layers, from the bottom, have the same input in the static model as in
// the one that adapts by the method.
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

// caches reports whether a stream has a cache: as its method, or as its companion.
func (s *Settings) caches(m *model.Model) bool {
	return s.Method == Cache || s.Companion && m.OfWords()
}

// counts reports whether a stream has a companion of counts.
func (s *Settings) counts(m *model.Model) bool { return s.Companion && !m.OfWords() }

// HasCompanion reports whether a stream mixes its network with a companion. One of words whose
// method is the cache does not: that cache is all that it could have.
func (s *Settings) HasCompanion(m *model.Model) bool {
	return s.Companion && !(m.OfWords() && s.Method == Cache)
}

// Validate reports the first setting of the method that does not fit the model.
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

// companionWarm is the Warm of a cache that is a companion: a session begins with few positions,
// which know little. Found on validation text.
const companionWarm = 200

// slopesOfByte is how many slopes a stream keeps of a pending byte.
const slopesOfByte = len(companion.Slopes{})

// learnsMixture reports whether the fast weights of a stream learn from the mixture's loss.
func (s *Settings) learnsMixture(m *model.Model) bool {
	writes := s.Method == SparseMeta || s.Method == DynamicSGD || s.Method == DynamicRMS
	return writes && s.counts(m) && m.Mixture > 0
}

// slopesBytes is the memory of the slopes that a stream keeps.
func (s *Settings) slopesBytes(m *model.Model) int64 {
	if !s.learnsMixture(m) {
		return 0
	}
	return 4 * int64(slopesOfByte) * int64(s.Chunk)
}
