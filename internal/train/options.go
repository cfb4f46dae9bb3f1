package train

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// Phases of a run: values of Options.Phase.
const (
	PhaseBoth     = "both"     // pretraining, then the meta-phase
	PhasePretrain = "pretrain" // the static model alone
	PhaseMeta     = "meta"     // the meta-learners of a model that exists
)

// Schemes of the meta-phase: values of MetaOptions.Scheme.
const (
	SchemeOnline = "online" // slow weights frozen, one stream, state carried under the serving settings
	SchemeWindow = "window" // Algorithm 1 of the paper: windows of k chunks, slow weights trained along
)

// Limits of options.
const (
	stepsMax   = 1 << 30
	batchMax   = 1 << 12
	lengthMax  = 1 << 16 // of a segment, in tokens; stream.MaxChunk bounds a chunk
	windowMax  = 1 << 10 // chunks of a window, or of an online step
	threadsMax = 1 << 10
)

// Options describe a run. Zero fields stand for the defaults given with them.
type Options struct {
	Phase string // PhaseBoth (also ""), PhasePretrain or PhaseMeta

	// What is trained: a model file, a configuration, or a configuration's name; the first of these that is set.
	From   string     // path of a model file whose slow weights to go on from; meta-learners are always made anew
	Model  txl.Config // set if NLayer > 0
	Config string     // for txl.Named; "": "default"

	Data    string   // directory of text files: each file a stream, its first folder its domain
	HoldOut []string // domains kept out of pretraining; the meta-phase sees them as text that is new to the slow weights
	Valid   string   // directory of text files for validation; "": none

	Out     string // where the model is written; "": nowhere
	Name    string // the model's name in that file; "": the configuration's name, or that of From
	Dir     string // folder of the checkpoints, made if it is missing; "": no checkpoints
	Resume  bool   // go on from the last checkpoint in Dir
	Metrics string // file to which metrics are appended as JSON lines; "": none

	Progress io.Writer // live bar if it is a terminal, else a line now and then; nil: silent

	Seed    uint64 // of weights, order of the text, dropout and masks
	Threads int    // 0: all that Go may use. The result does not depend on it

	Pretrain   PretrainOptions
	Meta       MetaOptions
	Validation ValidationOptions

	LogEvery        int // steps between two lines of metrics; 0: 10
	CheckpointEvery int // steps between two checkpoints; 0: 500
}

// Optimizers of the slow weights: values of SlowOptions.Optimizer.
const (
	OptimizerAdam = "adam" // of Kingma and Ba
	OptimizerMuon = "muon" // for the layers' matrices, see Muon; Adam for the rest
)

// SlowOptions are the settings of the optimiser of the slow weights, with a warm-up, a cosine and clipping.
type SlowOptions struct {
	Optimizer        string  `json:"optimizer"`         // OptimizerAdam (also "") or OptimizerMuon
	Rate             float64 `json:"rate"`              // largest learning rate; 0: .001
	Final            float64 `json:"final"`             // fraction of Rate at the last step; 0: .05
	Warmup           int     `json:"warmup"`            // steps; 0: a twentieth of all; below 0: none
	Clip             float64 `json:"clip"`              // largest norm of the gradient; 0: .25; below 0: no clipping
	Dropout          float64 `json:"dropout"`           // on hidden states; 0: none
	AttentionDropout float64 `json:"attention_dropout"` // on attention probabilities; 0: none
}

// PretrainOptions are the settings of pretraining.
type PretrainOptions struct {
	Steps   int `json:"steps"`   // optimiser steps; 0: 2000
	Batch   int `json:"batch"`   // streams read side by side; 0: 8
	Segment int `json:"segment"` // tokens a stream and step; 0: the configuration's seg_len
	SlowOptions
}

// MetaOptions are the settings of the meta-phase.
type MetaOptions struct {
	Scheme   string              `json:"scheme"`   // SchemeOnline (also "") or SchemeWindow
	Steps    int                 `json:"steps"`    // meta-steps; 0: 1000
	Chunk    int                 `json:"chunk"`    // tokens between two writes of the fast weights; 0: 128
	Rate     float64             `json:"rate"`     // largest learning rate of the meta-learners; 0: .003 (online), .00025 (window)
	Final    float64             `json:"final"`    // fraction of Rate at the last step; 0: .05
	Branches []string            `json:"branches"` // what gets fast weights, for model.Branches; nil: "wide" (online), "paper" (window)
	Settings sparsemeta.Settings `json:"settings"` // of serving, and of the online scheme's training; without Gammas: two banks (online), the paper's (window)
	Online   OnlineOptions       `json:"online"`
	Window   WindowOptions       `json:"window"`
}

// OnlineOptions are the settings of the online scheme.
type OnlineOptions struct {
	Chunks   int     `json:"chunks"`    // whose node gradients are summed for one meta-step; 0: 4
	Reset    float64 `json:"reset"`     // probability that M and I go back to zero where a piece of text begins; 0: .05; below 0: never
	PieceMin int     `json:"piece_min"` // bytes of the shortest pieces of text; 0: 4096
	PieceMax int     `json:"piece_max"` // bytes of the longest; 0: 32768
}

// WindowOptions are the settings of the window scheme.
type WindowOptions struct {
	K             int     `json:"k"`              // chunks of a window; the first k-1 write M; 0: 5
	GradientChunk int     `json:"gradient_chunk"` // tokens of the k-th; 0: 512
	Batch         int     `json:"batch"`          // streams that share M; 0: 8
	P             float64 `json:"p"`              // probability that a write sets an entry; 0: .05
	SlowOptions           // Rate 0: .00025
}

// ValidationOptions say how a model is measured along the way. Every measurement is in bits a character.
type ValidationOptions struct {
	Every     int  `json:"every"`      // steps; 0: only at the end of a phase
	Bytes     int  `json:"bytes"`      // of each file; 0: 16384; below 0: all
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

// withDefaults replaces zero fields by what they stand for, except those that depend on the model.
func (o Options) withDefaults() Options {
	if o.Phase == "" {
		o.Phase = PhaseBoth
	}
	if o.From == "" && o.Model.NLayer == 0 && o.Config == "" {
		o.Config = "default"
	}
	o.HoldOut = slices.Compact(slices.Sorted(slices.Values(o.HoldOut)))
	orInt(&o.Threads, runtime.GOMAXPROCS(0))
	orInt(&o.LogEvery, 10)
	orInt(&o.CheckpointEvery, 500)
	orInt(&o.Validation.Bytes, 16384)
	orInt(&o.Pretrain.Steps, 2000)
	orInt(&o.Pretrain.Batch, 8)
	o.Pretrain.SlowOptions.fill(1e-3, o.Pretrain.Steps)
	o.Meta.fill()
	return o
}

func (s *SlowOptions) fill(rate float64, steps int) {
	if s.Optimizer == "" {
		s.Optimizer = OptimizerAdam
	}
	orFloat(&s.Rate, rate)
	orInt(&s.Warmup, steps/20) // without one, a model with post-norm may never leave the frequencies of single bytes
	orFloat(&s.Final, 0.05)
	orFloat(&s.Clip, 0.25)
}

func (m *MetaOptions) fill() {
	if m.Scheme == "" {
		m.Scheme = SchemeOnline
	}
	orInt(&m.Steps, 1000)
	orInt(&m.Chunk, 128)
	orFloat(&m.Final, 0.05)
	orInt(&m.Online.Chunks, 4)
	orFloat(&m.Online.Reset, 0.05)
	orInt(&m.Online.PieceMin, 4<<10)
	orInt(&m.Online.PieceMax, 32<<10)
	orInt(&m.Window.K, 5)
	orInt(&m.Window.GradientChunk, 512)
	orInt(&m.Window.Batch, 8)
	orFloat(&m.Window.P, 0.05)
	m.Window.SlowOptions.fill(2.5e-4, m.Steps)
	rate, branches, settings := 3e-3, "wide", sparsemeta.TwoBankSettings()
	if m.Scheme == SchemeWindow {
		rate, branches, settings = 2.5e-4, "paper", sparsemeta.PaperSettings()
	}
	orFloat(&m.Rate, rate)
	if len(m.Branches) == 0 {
		m.Branches = []string{branches}
	}
	if m.Settings.Gammas == nil {
		m.Settings = settings
	}
}

// Validate reports the first field that cannot be used.
func (o Options) Validate() error {
	return o.withDefaults().validate()
}

func (o Options) validate() error {
	if !slices.Contains([]string{PhaseBoth, PhasePretrain, PhaseMeta}, o.Phase) {
		return &OptionError{"Phase", fmt.Sprintf("%q", o.Phase), "both, pretrain or meta"}
	}
	if o.Data == "" {
		return &OptionError{"Data", "empty", "a directory of text files"}
	}
	if o.Phase == PhaseMeta && o.From == "" && o.Meta.Scheme == SchemeOnline {
		return &OptionError{"From", "empty", "a model file: the online meta-phase needs slow weights that are already trained"}
	}
	if o.Resume && o.Dir == "" {
		return &OptionError{"Dir", "empty", "the folder of the checkpoint to resume from"}
	}
	checks := []error{
		within("Threads", o.Threads, 1, threadsMax),
		within("LogEvery", o.LogEvery, 1, stepsMax),
		within("CheckpointEvery", o.CheckpointEvery, 1, stepsMax),
		within("Validation.Every", o.Validation.Every, 0, stepsMax),
		within("Pretrain.Steps", o.Pretrain.Steps, 1, stepsMax),
		within("Pretrain.Batch", o.Pretrain.Batch, 1, batchMax),
		within("Pretrain.Segment", o.Pretrain.Segment, 0, lengthMax),
		o.Pretrain.SlowOptions.validate("Pretrain", o.Pretrain.Steps),
		o.Meta.validate(),
	}
	return first(checks)
}

func (s SlowOptions) validate(prefix string, steps int) error {
	if s.Optimizer != OptimizerAdam && s.Optimizer != OptimizerMuon {
		return &OptionError{prefix + ".Optimizer", fmt.Sprintf("%q", s.Optimizer), "adam or muon"}
	}
	return first([]error{
		between(prefix+".Rate", s.Rate, 0, 10),
		between(prefix+".Final", s.Final, 0, 1),
		within(prefix+".Warmup", s.Warmup, -1, steps),
		between(prefix+".Clip", s.Clip, math.Inf(-1), math.MaxFloat64),
		between(prefix+".Dropout", s.Dropout, 0, .95),
		between(prefix+".AttentionDropout", s.AttentionDropout, 0, .95),
	})
}

func (m MetaOptions) validate() error {
	if m.Scheme != SchemeOnline && m.Scheme != SchemeWindow {
		return &OptionError{"Meta.Scheme", fmt.Sprintf("%q", m.Scheme), "online or window"}
	}
	if err := m.Settings.Validate(); err != nil {
		return fmt.Errorf("train: option Meta.Settings: %w", err)
	}
	return first([]error{
		within("Meta.Steps", m.Steps, 1, stepsMax),
		within("Meta.Chunk", m.Chunk, 1, stream.MaxChunk),
		between("Meta.Rate", m.Rate, 0, 10),
		between("Meta.Final", m.Final, 0, 1),
		within("Meta.Online.Chunks", m.Online.Chunks, 1, windowMax),
		between("Meta.Online.Reset", m.Online.Reset, math.Inf(-1), 1),
		within("Meta.Online.PieceMin", m.Online.PieceMin, 1, m.Online.PieceMax),
		within("Meta.Online.PieceMax", m.Online.PieceMax, m.Online.PieceMin, math.MaxInt32),
		within("Meta.Window.K", m.Window.K, 2, windowMax),
		within("Meta.Window.GradientChunk", m.Window.GradientChunk, 1, lengthMax),
		within("Meta.Window.Batch", m.Window.Batch, 1, batchMax),
		between("Meta.Window.P", m.Window.P, 0, 1),
		m.Window.SlowOptions.validate("Meta.Window", m.Steps),
	})
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
