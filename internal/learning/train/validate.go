package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/documents"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
)

const (
	stepsMax   = 1 << 30
	batchMax   = 1 << 12
	lengthMax  = 1 << 16 // largest segment in tokens; stream.MaxChunk limits chunks
	windowMax  = 1 << 10 // maximum number of chunks in a window or in an online step
	threadsMax = 1 << 10
)

// validate returns an error for the first invalid field. Defaults must already be filled in.
func (o Options) validate() error {
	if err := o.validatePhases(); err != nil {
		return err
	}
	if o.Data == "" {
		return &OptionError{"Data", "empty", "a directory of text files"}
	}
	if o.Phases[0] == PhaseMeta && o.Init == "" {
		return &OptionError{"Init", "empty", "a model file: phase meta needs trained slow weights"}
	}
	if err := o.validateTokenizer(); err != nil {
		return err
	}
	if _, ok := storeTypes[o.Store]; !ok {
		return &OptionError{"Store", fmt.Sprintf("%q", o.Store), "float32, bf16 or f16"}
	}
	if err := (kernel.Arithmetic{Precision: o.Precision}).Validate(); err != nil {
		return &OptionError{"Precision", fmt.Sprintf("%q", o.Precision), err.Error()}
	}
	if o.Resume && o.Dir == "" {
		return &OptionError{"Dir", "empty", "the folder of the checkpoint to resume from"}
	}
	return cmp.Or(
		o.Outside("Dir", o.Dir),
		o.Outside("Out", o.Out),
		within("Threads", o.Threads, 1, threadsMax),
		within("CheckpointEvery", o.CheckpointEvery, 1, stepsMax),
		within("Validation.Patience", o.Validation.Patience, 0, stepsMax),
		within("Pretrain.Steps", o.Pretrain.Steps, 0, stepsMax),
		within("Pretrain.Batch", o.Pretrain.Batch, 1, batchMax),
		within("Pretrain.Segment", o.Pretrain.Segment, 0, lengthMax),
		between("Pretrain.Balance", o.Pretrain.Balance, 0, 1),
		between("Pretrain.Companion", float64(o.Pretrain.Companion), 0, 1),
		o.Pretrain.SlowOptions.validate("Pretrain", o.Pretrain.Steps),
		o.Meta.validate(),
		within("Joint.Steps", o.Joint.Steps, 0, stepsMax),
		o.Joint.SlowOptions.validate("Joint", o.Joint.Steps),
	)
}

// Outside returns an *OptionError if the field's path is below Data or Valid. The files that a run
// writes there would be text of the run that resumes it.
func (o *Options) Outside(field, path string) error {
	valid := o.Valid
	if valid == ValidNone {
		valid = ""
	}
	return Outside(field, path, o.Data, valid)
}

// Outside returns an *OptionError if the field's path is below one of the folders, whose files are
// all text. An empty name means no folder.
func Outside(field, path string, folders ...string) error {
	for _, text := range folders {
		if text != "" && documents.Contains(text, path) {
			return &OptionError{field, path,
				"a path outside of " + text + ", because all files in it are text"}
		}
	}
	return nil
}

func (o Options) validatePhases() error {
	for i, phase := range o.Phases {
		switch {
		case phase != PhasePretrain && phase != PhaseMeta && phase != PhaseJoint:
			return &OptionError{"Phases", fmt.Sprintf("%q", phase), "pretrain, meta or joint"}
		case slices.Contains(o.Phases[:i], phase):
			return &OptionError{"Phases", phase + " again", "each phase at most once"}
		case phase == PhasePretrain && i > 0:
			return &OptionError{"Phases", "pretrain after " + o.Phases[i-1],
				"pretrain as the first phase"}
		}
	}
	return nil
}

func (o Options) validateTokenizer() error {
	t := o.Tokenizer
	given := t.Vocabulary != "" || t.VocabularyOptions != (tokenizer.VocabularyOptions{})
	switch {
	case o.Init != "" && (given || t.Kind == tokenizer.KindWords):
		return otherTokenizer(tokenizer.KindWords)
	case o.Init != "":
		return nil
	case t.Kind != tokenizer.KindBytes && t.Kind != tokenizer.KindWords:
		return &OptionError{"Tokenizer.Kind", fmt.Sprintf("%q", t.Kind), "bytes or words"}
	case t.Kind == tokenizer.KindBytes && given:
		return &OptionError{"Tokenizer.Kind", t.Kind, "words, because a vocabulary is given"}
	case t.Vocabulary != "" && t.Size != 0:
		return beside("Tokenizer.Size", int64(t.Size))
	case t.Vocabulary != "" && t.MinCount != 0:
		return beside("Tokenizer.MinCount", t.MinCount)
	}
	if t.Size == 1 || t.Size == 2 {
		return &OptionError{"Tokenizer.Size", fmt.Sprint(t.Size), fmt.Sprintf("3 to %d, or 0",
			tokenizer.MaxVocab)}
	}
	return cmp.Or(
		within("Tokenizer.Size", t.Size, 0, tokenizer.MaxVocab),
		within("Tokenizer.MinCount", int(t.MinCount), 0, math.MaxInt32),
	)
}

func beside(option string, value int64) error {
	return &OptionError{option, fmt.Sprint(value), "no value: the vocabulary file has all words"}
}

func otherTokenizer(kind string) error {
	return &OptionError{"Tokenizer.Kind", kind,
		"no value: the initial model has a tokenizer"}
}

// validate checks the settings of a phase with the given number of steps; 0 means that the number
// is unknown.
func (s SlowOptions) validate(prefix string, steps int) error {
	return cmp.Or(
		oneOf(prefix+".Optimizer", s.Optimizer, OptimizerAdam, OptimizerMuon),
		oneOf(prefix+".Schedule", s.Schedule, schedules...),
		between(prefix+".Rate", s.Rate, 0, 10),
		between(prefix+".Final", s.Final, 0, 1),
		within(prefix+".Warmup", s.Warmup, -1, cmp.Or(steps, stepsMax)),
		between(prefix+".Clip", s.Clip, -math.MaxFloat64, math.MaxFloat64),
		between(prefix+".Dropout", s.Dropout, 0, .95),
		between(prefix+".AttentionDropout", s.AttentionDropout, 0, .95),
	)
}

func (m MetaOptions) validate() error {
	if err := oneOf("Meta.Scheme", m.Scheme, SchemeOnline, SchemeWindow); err != nil {
		return err
	}
	if err := settingsOver(m.Settings, sparsemeta.TwoBankSettings()).Validate(); err != nil {
		return fmt.Errorf("train: option Meta.Settings: %w", err)
	}
	if m.Normal != nil {
		if err := m.Normal.Validate(); err != nil {
			return fmt.Errorf("train: option Meta.Normal: %w", err)
		}
	}
	if m.Companion && m.Scheme == SchemeWindow {
		return &OptionError{"Meta.Companion", "true", "false with the scheme window, whose " +
			"streams share their fast weights"}
	}
	if m.Mixture != 0 && !m.Companion {
		return &OptionError{"Meta.Mixture", fmt.Sprint(m.Mixture), "0 without a companion"}
	}
	if n := m.CompanionBytes; n != 0 &&
		(companion.Settings{TableBytes: n, Networks: 1}).Validate() != nil {
		return &OptionError{"Meta.CompanionBytes", fmt.Sprint(n), companion.TableBytesWanted}
	}
	return cmp.Or(
		between("Meta.Mixture", float64(m.Mixture), 0, 1),
		oneOf("Meta.Schedule", m.Schedule, schedules...),
		within("Meta.Steps", m.Steps, 0, stepsMax),
		within("Meta.Chunk", m.Chunk, 0, stream.MaxChunk),
		between("Meta.Rate", m.Rate, 0, 10),
		between("Meta.Final", m.Final, 0, 1),
		within("Meta.Online.Chunks", m.Online.Chunks, 1, windowMax),
		within("Meta.Online.Sample", m.Online.Sample, 1, windowMax),
		between("Meta.Online.Reset", m.Online.Reset, math.Inf(-1), 1),
		within("Meta.Online.PieceMin", m.Online.PieceMin, 1, m.Online.PieceMax),
		within("Meta.Online.PieceMax", m.Online.PieceMax, m.Online.PieceMin, math.MaxInt32),
		within("Meta.Window.K", cmp.Or(m.Window.K, 2), 2, windowMax),
		within("Meta.Window.GradientChunk", m.Window.GradientChunk, 0, lengthMax),
		within("Meta.Window.Batch", m.Window.Batch, 1, batchMax),
		between("Meta.Window.P", m.Window.P, 0, 1),
	)
}

var schedules = []string{optim.ScheduleCosine, optim.ScheduleWSD, optim.ScheduleConstant}

// oneOf returns an error unless v is one of the words. The caller must give at least two words.
func oneOf(field, v string, words ...string) error {
	if !slices.Contains(words, v) {
		return &OptionError{field, fmt.Sprintf("%q", v), english.WordSeries(words, "or")}
	}
	return nil
}

func within(field string, v, lo, hi int) error {
	if v < lo || v > hi {
		return &OptionError{field, fmt.Sprint(v), fmt.Sprintf("%d to %d", lo, hi)}
	}
	return nil
}

// between returns an error unless lo <= v <= hi. It always returns an error for NaN.
func between(field string, v, lo, hi float64) error {
	if !(v >= lo && v <= hi) {
		return &OptionError{field, fmt.Sprint(v), fmt.Sprintf("%g to %g", lo, hi)}
	}
	return nil
}
