package train

import (
	"cmp"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
)

// withDefaults replaces zero fields by their defaults. The method complete does so for fields whose
// defaults depend on the model or the text.
func (o Options) withDefaults() Options {
	if len(o.Phases) == 0 {
		o.Phases = []string{PhasePretrain, PhaseMeta}
	}
	o.HoldOut = slices.Compact(slices.Sorted(slices.Values(o.HoldOut)))
	fill(&o.Threads, runtime.GOMAXPROCS(0))
	fill(&o.Store, StoreDefault)
	if o.Init == "" { // a model in Init already has a tokenizer
		o.Tokenizer.withDefaults()
	}
	fill(&o.CheckpointEvery, 500)
	fill(&o.Validation.Bytes, 16384)
	fill(&o.Pretrain.Batch, 16)
	pretrainRate := 3e-3
	if o.Pretrain.Optimizer == OptimizerAdam {
		pretrainRate = 1e-3
	}
	o.Pretrain.SlowOptions.withDefaults(OptimizerMuon, pretrainRate)
	o.Meta.withDefaults()
	rate := 1e-4
	if o.Meta.Scheme == SchemeWindow {
		rate = 2.5e-4
	}
	o.Joint.SlowOptions.withDefaults(OptimizerAdam, rate)
	return o
}

func (t *TokenizerOptions) withDefaults() {
	fill(&t.Kind, tokenizer.KindBytes)
	none := t.Vocabulary == "" && t.VocabularyOptions == (tokenizer.VocabularyOptions{})
	if t.Kind == tokenizer.KindWords && none {
		t.MinCount = MinCountDefault
	}
}

func (s *SlowOptions) withDefaults(optimizer string, rate float64) {
	fill(&s.Optimizer, optimizer)
	fill(&s.Schedule, optim.ScheduleCosine)
	fill(&s.Rate, rate)
	fill(&s.Final, 0.05)
	fill(&s.Clip, 0.25)
}

func (m *MetaOptions) withDefaults() {
	fill(&m.Scheme, SchemeOnline)
	fill(&m.Schedule, optim.ScheduleCosine)
	fill(&m.Final, 0.05)
	fill(&m.Online.Chunks, 8)
	fill(&m.Online.Sample, 8)
	fill(&m.Online.Reset, 0.75)
	fill(&m.Online.PieceMin, 4<<10)
	fill(&m.Online.PieceMax, 512<<10)
	fill(&m.Window.Batch, 8)
	fill(&m.Window.P, 0.05)
}

// Values of the paper (Sparse Meta Networks) for models of words. wordP is the probability that an
// update writes a fast weight. wordChunk is the number of tokens in a chunk. In the window scheme,
// wordWindow is the number of chunks in a window, and wordGradientChunk the number of tokens in the
// last chunk.
const (
	wordP             = 0.3
	wordChunk         = 50
	wordWindow        = 4
	wordGradientChunk = 150
)

// complete replaces zero fields whose defaults depend on the initial model or on the number of
// tokens. The model base has meta-learners only if training continues them.
func (o *Options) complete(base *model.Model, tokens int) {
	m := &o.Meta
	settings, chunk, window, gradientChunk := sparsemeta.TwoBankSettings(), 64, 5, 512
	if m.Scheme == SchemeWindow {
		settings, chunk = sparsemeta.PaperSettings(), 128
	}
	if base.OfWords() {
		settings.P, chunk, window, gradientChunk = wordP, wordChunk, wordWindow, wordGradientChunk
	}
	fill(&m.Window.K, window)
	fill(&m.Window.GradientChunk, gradientChunk)
	switch {
	case base.Learner != nil:
		settings, chunk = base.Learner.Settings, base.Chunk
		m.Companion = m.Companion || base.Mixture > 0 || o.trainsLearner() && withCompanion(base)
		if m.Companion {
			fill(&m.Mixture, base.Mixture)
		}
	case len(m.Branches) == 0 && m.Scheme == SchemeWindow:
		m.Branches = []string{"paper"}
	case len(m.Branches) == 0:
		m.Branches = []string{"upper"}
	}
	m.Settings = settingsOver(m.Settings, settings)
	fill(&m.Chunk, chunk)
	rate := 3e-3
	if largeOutput(m.Settings) {
		rate = 2.5e-4
	}
	fill(&m.Rate, rate)

	fill(&o.Pretrain.Segment, base.LM.Config.SegLen)
	// number of tokens that pretraining reads by default
	long := max(min(3*tokens, 20<<20), 1<<20)
	steps := func(read, perStep int) int { return (read + perStep - 1) / perStep }
	fill(&o.Pretrain.Steps, steps(long, o.Pretrain.Batch*o.Pretrain.Segment))
	metaSteps := steps(max(min(tokens, 1<<20), 1<<18), m.Online.Chunks*m.Chunk)
	if m.Scheme == SchemeWindow {
		metaSteps = steps(long, m.Window.Batch*((m.Window.K-1)*m.Chunk+m.Window.GradientChunk))
	}
	fill(&m.Steps, metaSteps)
	fill(&o.Joint.Steps, m.Steps)
	// Without a warm-up a model with post-norm may never learn more than the frequencies of single
	// bytes.
	fill(&o.Pretrain.Warmup, o.Pretrain.Steps/20)
	fill(&o.Joint.Warmup, o.Joint.Steps/20)
}

// trainsLearner reports whether the run trains meta-learners.
func (o *Options) trainsLearner() bool {
	return !slices.Equal(o.Phases, []string{PhasePretrain})
}

// withCompanion reports whether the model's meta-learners learned with a companion. If the
// mixture's loss had no weight in their updates, only a card of Run says so.
func withCompanion(m *model.Model) bool {
	var c struct {
		Recipe struct {
			Meta struct {
				Companion bool `json:"companion"`
			} `json:"meta"`
		} `json:"recipe"`
		Companion bool `json:"companion"`
	}
	read := json.Unmarshal(m.Card, &c) == nil
	return m.Mixture > 0 || read && (c.Recipe.Meta.Companion || c.Companion)
}

// settingsOver returns the settings `asked`, with zero fields replaced by the fields of `others`.
func settingsOver(asked, others sparsemeta.Settings) sparsemeta.Settings {
	if asked.Gammas == nil {
		asked.Gammas = others.Gammas
	}
	if asked.Beta1 == 0 && asked.Beta2 == 0 {
		asked.Beta1, asked.Beta2 = others.Beta1, others.Beta2
	}
	fill(&asked.P, others.P)
	fill(&asked.Out, others.Out)
	return asked
}

// largeOutput reports whether the output of the meta-learners is not scaled down. The paper's
// settings do not scale it down. Meta-learners with a large output need small initial weights and
// small steps.
func largeOutput(s sparsemeta.Settings) bool { return s.Out > 0.1 }

func fill[T comparable](v *T, by T) { *v = cmp.Or(*v, by) }
