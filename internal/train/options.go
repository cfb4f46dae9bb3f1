package train

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Phases of a run: values of Options.Phases.
const (
	PhasePretrain = "pretrain" // the slow weights alone; what comes out is a static model
	PhaseMeta     = "meta"     // the meta-learners alone, on slow weights that are already trained
	PhaseJoint    = "joint"    // slow weights and meta-learners together
)

// Schemes of the phases that train meta-learners: values of MetaOptions.Scheme.
const (
	SchemeOnline = "online" // one stream, state carried under the serving settings
	SchemeWindow = "window" // Algorithm 1 of the paper: windows of k chunks
)

// ValidNone as Options.Valid: there is no validation.
const ValidNone = "none"

// DefaultConfig is the configuration of a run that names none.
const DefaultConfig = "small"

// StoreDefault is how the slow weights are stored where nothing is said: half of the bytes, for next to nothing in the scores.
const StoreDefault = "bf16"

// storeTypes are the values of Options.Store.
var storeTypes = map[string]weights.DType{"float32": weights.F32, "bf16": weights.BF16, "f16": weights.F16}

// Limits of options.
const (
	stepsMax   = 1 << 30
	batchMax   = 1 << 12
	lengthMax  = 1 << 16 // of a segment, in tokens; stream.MaxChunk bounds a chunk
	windowMax  = 1 << 10 // chunks of a window, or of an online step
	threadsMax = 1 << 10
)

// Options describe a run. Zero fields stand for the defaults given with them.
//
// A phase begins with the slow weights and meta-learners of the one before it; the first begins with those of Init. Pretraining drops
// meta-learners: they were trained for other slow weights. The other phases train further what they find, if it has the branches and as
// many banks as are asked for or nothing is asked, and otherwise make meta-learners anew.
type Options struct {
	Phases []string // in order, each at most once, PhasePretrain only as the first; nil: PhasePretrain, PhaseMeta

	// What is trained: the model of a file, or random weights of a configuration.
	Init  string     // path of a model file to go on from
	Model txl.Config // without Init, if NLayer is 0: DefaultConfig; with Init: the model's own, or the same with other lengths (seg_len, mem_len, clamp_len, same_length)

	Data    string   // directory of text files: each file a stream, its first folder its domain
	HoldOut []string // domains kept out of pretraining; the other phases see them as text that is new to the slow weights
	Valid   string   // directory of text files for validation, or ValidNone; "": a part of Data is kept back for it

	Out     string // where the model is written; "": nowhere
	Store   string // type of the slow weights in that file: a key of storeTypes; "": StoreDefault. No training depends on it
	Name    string // the model's name in that file; "": that of Init, DefaultConfig's, or "model"
	Dir     string // folder of the checkpoints, made if it is missing; "": no checkpoints
	Resume  bool   // go on from the last checkpoint in Dir, if there is one
	Metrics string // file to which metrics are appended as JSON lines; "": metricsName in Dir, if there is one
	Report  string // file of a page with the recipe, the results and the curves; "": none

	Progress io.Writer // live bar if it is a terminal, else a line now and then; nil: silent

	Precision kernel.Precision // of the matrix products; "": kernel.Float32

	Seed    uint64 // of weights, order of the text, dropout and masks
	Threads int    // 0: all that Go may use. The result does not depend on it

	Pretrain   PretrainOptions
	Meta       MetaOptions
	Joint      JointOptions
	Validation ValidationOptions

	LogEvery        int // steps between two lines of metrics; 0: 10
	CheckpointEvery int // steps between two checkpoints; 0: 500
}

// Optimizers of the slow weights: values of SlowOptions.Optimizer.
const (
	OptimizerAdam = "adam" // of Kingma and Ba
	OptimizerMuon = "muon" // for the layers' matrices, see Muon; Adam for the rest
)

// SlowOptions are the settings of the optimiser of the slow weights, with a warm-up, a schedule and clipping.
type SlowOptions struct {
	Optimizer        string  `json:"optimizer"`         // OptimizerMuon or OptimizerAdam; "": Muon in pretraining, else Adam
	Schedule         string  `json:"schedule"`          // ScheduleCosine (also ""), ScheduleWSD or ScheduleConstant
	Rate             float64 `json:"rate"`              // largest learning rate; 0: in pretraining .003 (Muon) or .001 (Adam)
	Final            float64 `json:"final"`             // fraction of Rate at the last step; 0: .05
	Warmup           int     `json:"warmup"`            // steps; 0: a twentieth of all; below 0: none
	Clip             float64 `json:"clip"`              // largest norm of the gradient; 0: .25; below 0: no clipping
	Dropout          float64 `json:"dropout"`           // on hidden states; 0: none
	AttentionDropout float64 `json:"attention_dropout"` // on attention probabilities; 0: none
}

// PretrainOptions are the settings of pretraining.
type PretrainOptions struct {
	Steps   int `json:"steps"`   // optimiser steps; 0: those that read the text three times, but at least 1 MB and at most 20 MB
	Batch   int `json:"batch"`   // streams read side by side; 0: 16
	Segment int `json:"segment"` // tokens a stream and step; 0: the configuration's seg_len
	// Balance says how much more often than its size asks for a small domain is read: a domain gets its part of the reading in proportion
	// to bytes^(1-Balance). 0: all bytes are alike; 1: all domains are.
	Balance float64 `json:"balance"`
	SlowOptions
}

// MetaOptions are the settings of the phases that train meta-learners.
type MetaOptions struct {
	Scheme string `json:"scheme"` // SchemeOnline (also "") or SchemeWindow
	// Steps of PhaseMeta. 0: online, those that read the text once, but at least 256 KB and at most 1 MB; windows as in pretraining.
	Steps    int      `json:"steps"`
	Chunk    int      `json:"chunk"`    // tokens between two writes of the fast weights; 0: as the meta-learners found, or 64 (online), 128 (window)
	Rate     float64  `json:"rate"`     // largest learning rate of the meta-learners; 0: .003, or .00025 where Settings.Out is of the order of 1
	Final    float64  `json:"final"`    // fraction of Rate at the last step; 0: .05
	Schedule string   `json:"schedule"` // as SlowOptions.Schedule
	Branches []string `json:"branches"` // what gets fast weights, for model.Branches; nil: as the meta-learners found, or "upper" (online), "paper" (window)
	// Settings of serving, and of the online scheme's training. Fields that are zero (both betas) are as with the meta-learners found, or
	// two banks (online), the paper's (window).
	Settings sparsemeta.Settings `json:"settings"`
	Online   OnlineOptions       `json:"online"`
	Window   WindowOptions       `json:"window"`
}

// OnlineOptions are the settings of the online scheme.
type OnlineOptions struct {
	Chunks   int     `json:"chunks"`    // whose gradients are summed for one step; 0: 8
	Sample   int     `json:"sample"`    // a step's gradient is estimated from one of so many fast weights; 0: 8
	Reset    float64 `json:"reset"`     // probability that M and I go back to zero where a piece of text begins; 0: .5; below 0: never
	PieceMin int     `json:"piece_min"` // bytes of the shortest pieces of text; 0: 4096
	PieceMax int     `json:"piece_max"` // bytes of the longest; 0: 65536
}

// WindowOptions are the settings of the window scheme.
type WindowOptions struct {
	K             int     `json:"k"`              // chunks of a window; the first k-1 write M; 0: 5
	GradientChunk int     `json:"gradient_chunk"` // tokens of the k-th; 0: 512
	Batch         int     `json:"batch"`          // streams that share M; 0: 8
	P             float64 `json:"p"`              // probability that a write sets an entry; 0: .05
}

// JointOptions are the settings of the slow weights in PhaseJoint; MetaOptions has the rest.
type JointOptions struct {
	Steps       int `json:"steps"` // 0: as MetaOptions.Steps
	SlowOptions     // Rate 0: .0001 (online), .00025 (window)
}

// ValidationOptions say how a model is measured along the way. Every measurement is in bits a character.
type ValidationOptions struct {
	Every     int  `json:"every"`      // steps; 0: ten times a phase; below 0: only at the end of a phase. Else trained weights at step 0, too
	Bytes     int  `json:"bytes"`      // of each file of Options.Valid; 0: 16384; below 0: all. What is kept back counts as a whole
	Patience  int  `json:"patience"`   // a phase ends after so many validations in a row without a better one; 0: never
	OneStream bool `json:"one_stream"` // all documents as one stream that is never reset; else each is a stream of its own
}

func orInt(v *int, or int) {
	if *v == 0 {
		*v = or
	}
}

func orFloat(v *float64, or float64) {
	if *v == 0 {
		*v = or
	}
}

// withDefaults replaces zero fields by what they stand for, except those that depend on the model or the text: see complete.
func (o Options) withDefaults() Options {
	if len(o.Phases) == 0 {
		o.Phases = []string{PhasePretrain, PhaseMeta}
	}
	o.HoldOut = slices.Compact(slices.Sorted(slices.Values(o.HoldOut)))
	orInt(&o.Threads, runtime.GOMAXPROCS(0))
	if o.Metrics == "" && o.Dir != "" {
		o.Metrics = filepath.Join(o.Dir, metricsName)
	}
	if o.Store == "" {
		o.Store = StoreDefault
	}
	orInt(&o.LogEvery, 10)
	orInt(&o.CheckpointEvery, 500)
	orInt(&o.Validation.Bytes, 16384)
	orInt(&o.Pretrain.Batch, 16)
	pretrainRate := 3e-3
	if o.Pretrain.Optimizer == OptimizerAdam {
		pretrainRate = 1e-3
	}
	o.Pretrain.SlowOptions.fill(OptimizerMuon, pretrainRate)
	o.Meta.fill()
	rate := 1e-4
	if o.Meta.Scheme == SchemeWindow {
		rate = 2.5e-4
	}
	o.Joint.SlowOptions.fill(OptimizerAdam, rate)
	return o
}

func (s *SlowOptions) fill(optimizer string, rate float64) {
	if s.Optimizer == "" {
		s.Optimizer = optimizer
	}
	if s.Schedule == "" {
		s.Schedule = ScheduleCosine
	}
	orFloat(&s.Rate, rate)
	orFloat(&s.Final, 0.05)
	orFloat(&s.Clip, 0.25)
}

func (m *MetaOptions) fill() {
	if m.Scheme == "" {
		m.Scheme = SchemeOnline
	}
	if m.Schedule == "" {
		m.Schedule = ScheduleCosine
	}
	orFloat(&m.Final, 0.05)
	orInt(&m.Online.Chunks, 8)
	orInt(&m.Online.Sample, 8)
	orFloat(&m.Online.Reset, 0.5)
	orInt(&m.Online.PieceMin, 4<<10)
	orInt(&m.Online.PieceMax, 64<<10)
	orInt(&m.Window.K, 5)
	orInt(&m.Window.GradientChunk, 512)
	orInt(&m.Window.Batch, 8)
	orFloat(&m.Window.P, 0.05)
}

// complete replaces the zero fields that depend on the meta-learners found (nil: none that can be used), on the model's configuration and
// on the bytes of text.
func (o *Options) complete(found *model.Model, c txl.Config, bytes int) {
	m := &o.Meta
	settings, chunk := sparsemeta.TwoBankSettings(), 64
	if m.Scheme == SchemeWindow {
		settings, chunk = sparsemeta.PaperSettings(), 128
	}
	switch {
	case found != nil:
		settings, chunk = found.Learner.Settings, found.Chunk
	case len(m.Branches) == 0 && m.Scheme == SchemeWindow:
		m.Branches = []string{"paper"}
	case len(m.Branches) == 0:
		m.Branches = []string{"upper"}
	}
	m.Settings = settingsOver(m.Settings, settings)
	orInt(&m.Chunk, chunk)
	rate := 3e-3
	if largeOutput(m.Settings) {
		rate = 2.5e-4
	}
	orFloat(&m.Rate, rate)

	orInt(&o.Pretrain.Segment, c.SegLen)
	long := max(min(3*bytes, 20<<20), 1<<20) // what pretraining reads by default
	steps := func(read, perStep int) int { return (read + perStep - 1) / perStep }
	orInt(&o.Pretrain.Steps, steps(long, o.Pretrain.Batch*o.Pretrain.Segment))
	metaSteps := steps(max(min(bytes, 1<<20), 1<<18), m.Online.Chunks*m.Chunk)
	if m.Scheme == SchemeWindow {
		metaSteps = steps(long, m.Window.Batch*((m.Window.K-1)*m.Chunk+m.Window.GradientChunk))
	}
	orInt(&m.Steps, metaSteps)
	orInt(&o.Joint.Steps, m.Steps)
	// Without a warm-up a model with post-norm may never leave the frequencies of single bytes.
	orInt(&o.Pretrain.Warmup, o.Pretrain.Steps/20)
	orInt(&o.Joint.Warmup, o.Joint.Steps/20)
}

// settingsOver are the asked settings, with what they leave open as in the others.
func settingsOver(asked, others sparsemeta.Settings) sparsemeta.Settings {
	if asked.Gammas == nil {
		asked.Gammas = others.Gammas
	}
	if asked.Beta1 == 0 && asked.Beta2 == 0 {
		asked.Beta1, asked.Beta2 = others.Beta1, others.Beta2
	}
	orFloat(&asked.P, others.P)
	if asked.Out == 0 {
		asked.Out = others.Out
	}
	return asked
}

// largeOutput tells the paper's meta-learners, whose output is not scaled down, from ours: they begin with, and move by, small weights.
func largeOutput(s sparsemeta.Settings) bool { return s.Out > 0.1 }

// Validate reports the first field that cannot be used.
func (o Options) Validate() error {
	return o.withDefaults().validate()
}

func (o Options) validate() error {
	if err := o.validatePhases(); err != nil {
		return err
	}
	if o.Data == "" {
		return &OptionError{"Data", "empty", "a directory of text files"}
	}
	if o.Phases[0] == PhaseMeta && o.Init == "" {
		return &OptionError{"Init", "empty", "a model file: the phase meta needs slow weights that are already trained"}
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
	checks := []error{
		within("Threads", o.Threads, 1, threadsMax),
		within("LogEvery", o.LogEvery, 1, stepsMax),
		within("CheckpointEvery", o.CheckpointEvery, 1, stepsMax),
		within("Validation.Patience", o.Validation.Patience, 0, stepsMax),
		within("Pretrain.Steps", o.Pretrain.Steps, 0, stepsMax),
		within("Pretrain.Batch", o.Pretrain.Batch, 1, batchMax),
		within("Pretrain.Segment", o.Pretrain.Segment, 0, lengthMax),
		between("Pretrain.Balance", o.Pretrain.Balance, 0, 1),
		o.Pretrain.SlowOptions.validate("Pretrain", o.Pretrain.Steps),
		o.Meta.validate(),
		within("Joint.Steps", o.Joint.Steps, 0, stepsMax),
		o.Joint.SlowOptions.validate("Joint", o.Joint.Steps),
	}
	return first(checks)
}

func (o Options) validatePhases() error {
	for i, phase := range o.Phases {
		switch {
		case phase != PhasePretrain && phase != PhaseMeta && phase != PhaseJoint:
			return &OptionError{"Phases", fmt.Sprintf("%q", phase), "pretrain, meta or joint"}
		case slices.Contains(o.Phases[:i], phase):
			return &OptionError{"Phases", phase + " again", "each phase at most once"}
		case phase == PhasePretrain && i > 0:
			return &OptionError{"Phases", "pretrain after " + o.Phases[i-1], "pretrain as the first: it makes a static model"}
		}
	}
	return nil
}

// validate checks the settings for so many steps; 0: not known yet.
func (s SlowOptions) validate(prefix string, steps int) error {
	most := steps
	if steps == 0 {
		most = stepsMax
	}
	if s.Optimizer != OptimizerAdam && s.Optimizer != OptimizerMuon {
		return &OptionError{prefix + ".Optimizer", fmt.Sprintf("%q", s.Optimizer), "adam or muon"}
	}
	return first([]error{
		schedule(prefix+".Schedule", s.Schedule),
		between(prefix+".Rate", s.Rate, 0, 10),
		between(prefix+".Final", s.Final, 0, 1),
		within(prefix+".Warmup", s.Warmup, -1, most),
		between(prefix+".Clip", s.Clip, math.Inf(-1), math.MaxFloat64),
		between(prefix+".Dropout", s.Dropout, 0, .95),
		between(prefix+".AttentionDropout", s.AttentionDropout, 0, .95),
	})
}

func (m MetaOptions) validate() error {
	if m.Scheme != SchemeOnline && m.Scheme != SchemeWindow {
		return &OptionError{"Meta.Scheme", fmt.Sprintf("%q", m.Scheme), "online or window"}
	}
	if err := settingsOver(m.Settings, sparsemeta.TwoBankSettings()).Validate(); err != nil {
		return fmt.Errorf("train: option Meta.Settings: %w", err)
	}
	return first([]error{
		schedule("Meta.Schedule", m.Schedule),
		within("Meta.Steps", m.Steps, 0, stepsMax),
		within("Meta.Chunk", m.Chunk, 0, stream.MaxChunk),
		between("Meta.Rate", m.Rate, 0, 10),
		between("Meta.Final", m.Final, 0, 1),
		within("Meta.Online.Chunks", m.Online.Chunks, 1, windowMax),
		within("Meta.Online.Sample", m.Online.Sample, 1, windowMax),
		between("Meta.Online.Reset", m.Online.Reset, math.Inf(-1), 1),
		within("Meta.Online.PieceMin", m.Online.PieceMin, 1, m.Online.PieceMax),
		within("Meta.Online.PieceMax", m.Online.PieceMax, m.Online.PieceMin, math.MaxInt32),
		within("Meta.Window.K", m.Window.K, 2, windowMax),
		within("Meta.Window.GradientChunk", m.Window.GradientChunk, 1, lengthMax),
		within("Meta.Window.Batch", m.Window.Batch, 1, batchMax),
		between("Meta.Window.P", m.Window.P, 0, 1),
	})
}

func schedule(field, kind string) error {
	if !slices.Contains([]string{ScheduleCosine, ScheduleWSD, ScheduleConstant}, kind) {
		return &OptionError{field, fmt.Sprintf("%q", kind), "cosine, wsd or constant"}
	}
	return nil
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func within(field string, v, lo, hi int) error {
	if v < lo || v > hi {
		return &OptionError{field, fmt.Sprint(v), fmt.Sprintf("%d to %d", lo, hi)}
	}
	return nil
}

// between accepts lo to hi, and no NaN.
func between(field string, v, lo, hi float64) error {
	if !(v >= lo && v <= hi) {
		return &OptionError{field, fmt.Sprint(v), fmt.Sprintf("%g to %g", lo, hi)}
	}
	return nil
}
