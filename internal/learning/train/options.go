package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Phases of a run: values of Options.Phases.
const (
	PhasePretrain = "pretrain" // only the slow weights; the result is a static model
	PhaseMeta     = "meta"     // only the meta-learners, on slow weights that are already trained
	PhaseJoint    = "joint"    // slow weights and meta-learners together
)

// Schemes of the phases that train meta-learners: values of MetaOptions.Scheme.
const (
	SchemeOnline = "online" // one stream, state carried under the serving settings
	SchemeWindow = "window" // Algorithm 1 of the paper: windows of k chunks
)

// ValidNone is the value of Options.Valid for a run without validation.
const ValidNone = "none"

// DefaultConfig is the default configuration of a run.
const DefaultConfig = "small"

// StoreDefault is the default type of stored slow weights: it needs half of the bytes of float32,
// and hardly changes the scores.
const StoreDefault = "bf16"

// storeTypes are the values of Options.Store.
var storeTypes = map[string]weights.DType{"float32": weights.F32, "bf16": weights.BF16,
	"f16": weights.F16}

// Options describe a run. Zero fields mean the given defaults.
//
// A phase begins with the slow weights and meta-learners of the one before it; the first begins
// with those of Init. Pretraining drops meta-learners, because they were trained for other slow
// weights. The other phases train existing meta-learners further, unless the options ask for other
// branches, other inputs or another number of banks. Then these phases make new meta-learners.
type Options struct {
	// Phases are the phases of the run in their order. A phase occurs at most once, and
	// PhasePretrain only at the beginning. nil means PhasePretrain and PhaseMeta.
	Phases []string

	Init string // path of a model file to continue from; "" means a new model with random weights
	// Model is the configuration. Without Init, NLayer 0 means DefaultConfig. With Init, NLayer 0
	// means the configuration of the initial model. Otherwise only the lengths (seg_len, mem_len,
	// clamp_len, same_length) may differ from the initial model's, and untie_softmax may be added:
	// it gives the softmax copies of the tables that it shared with the embeddings.
	Model txl.Config

	// Tokenizer selects the tokens of a new model. It must be empty with Init.
	Tokenizer TokenizerOptions

	Data    string   // directory of text files; a file is a stream, its first folder is its domain
	HoldOut []string // domains kept out of pretraining: to the other phases their text is new
	// Valid is a directory of text files for validation, or ValidNone. If it is "", a part of Data
	// is kept back for validation.
	Valid string

	Out string // path of the model's file; "" means that no file is written
	// Store is the type of the slow weights in that file, a key of storeTypes; "" means
	// StoreDefault.
	Store string
	// Name is the model's name in that file; "" means the name of Init or of DefaultConfig, else
	// "model".
	Name   string
	Dir    string // folder of the checkpoints, made if it is missing; "" means no checkpoints
	Resume bool   // resume from the last checkpoint in Dir, if there is one

	Observer Observer // an observer of the run, or nil

	Seed    uint64 // seed of the weights, the order of the text, dropout and masks
	Threads int    // number of threads, which changes no result; 0 means all that Go may use

	Precision kernel.Precision // precision of the matrix products; "" means kernel.Float32

	Pretrain   PretrainOptions
	Meta       MetaOptions
	Joint      JointOptions
	Validation ValidationOptions

	CheckpointEvery int // steps between two checkpoints; 0 means 500
}

// TokenizerOptions select the tokens of a new model. The size of a word vocabulary replaces
// Options.Model.Vocab.
type TokenizerOptions struct {
	Kind string // tokenizer.KindBytes (also "") or tokenizer.KindWords
	// Vocabulary is a vocabulary file of the reference implementation. If it is "", the vocabulary
	// is made from the pretraining text in Data.
	Vocabulary string
	// VocabularyOptions choose the words of a vocabulary that is made from Data. If both fields are
	// 0, MinCount is MinCountDefault. Both must be 0 with a vocabulary file.
	tokenizer.VocabularyOptions
}

// MinCountDefault is the default minimum count of a word in the vocabulary. WikiText-103 was made
// with this number (Merity et al., Pointer Sentinel Mixture Models, 2016). Rarer words become
// unknown words in the training text, so that the model learns to expect unknown words.
const MinCountDefault = 3

// Optimizers of the slow weights: values of SlowOptions.Optimizer.
const (
	OptimizerAdam = "adam" // optim.Adam
	OptimizerMuon = "muon" // optim.Muon, for the layers' matrices; Adam for the rest
)

// SlowOptions are the settings of the optimizer of the slow weights, with a warm-up, a schedule and
// clipping.
type SlowOptions struct {
	// Optimizer is OptimizerMuon (also "" in pretraining) or OptimizerAdam (also "" elsewhere).
	Optimizer string `json:"optimizer"`
	// Schedule is the Kind of an optim.Schedule; "" means optim.ScheduleCosine.
	Schedule string `json:"schedule"`
	// Rate is the largest learning rate. In pretraining, 0 means .003 (Muon) or .001 (Adam); for
	// other phases see JointOptions.
	Rate  float64 `json:"rate"`
	Final float64 `json:"final"` // fraction of Rate at the last step; 0 means .05
	// Warmup is a number of steps. 0 means a twentieth of all steps; below 0, there is no warm-up.
	Warmup int `json:"warmup"`
	// Clip is the largest norm of the gradient. 0 means .25; below 0, there is no clipping.
	Clip    float64 `json:"clip"`
	Dropout float64 `json:"dropout"` // dropout on hidden states; 0 means no dropout
	// AttentionDropout is the dropout on attention probabilities; 0 means no dropout.
	AttentionDropout float64 `json:"attention_dropout"`
}

// PretrainOptions are the settings of pretraining.
type PretrainOptions struct {
	// Steps is the number of optimizer steps. 0 means three passes over the text, but at least 1 Mi
	// tokens (1,048,576) and at most 20 Mi.
	Steps int `json:"steps"`
	Batch int `json:"batch"` // parallel streams; 0 means 16
	// Segment is the number of tokens of a stream in a step; 0 means the configuration's seg_len.
	Segment int `json:"segment"`
	// Balance makes small domains count more: a domain gets a part of the reading in proportion to
	// tokens^(1-Balance). With 0 all tokens count equally, with 1 all domains do.
	Balance float64 `json:"balance"`
	// Companion puts a companion beside every stream, as in sessions. It is the share, 0 to 1, of
	// the mixture's loss in the loss that the slow weights learn from; the network's loss has the
	// rest. 0 means no companions; above 0, validations measure the mixture. It is only for models
	// of bytes.
	Companion float32 `json:"companion,omitempty"`
	SlowOptions
}

// MetaOptions are the settings of the phases that train meta-learners.
type MetaOptions struct {
	Scheme string `json:"scheme"` // SchemeOnline (also "") or SchemeWindow
	// Steps is the number of optimizer steps in PhaseMeta. With the online scheme, 0 means one pass
	// over the text, but at least 256 Ki tokens and at most 1 Mi. With the window scheme, 0 means
	// as much text as in pretraining.
	Steps int `json:"steps"`
	// Chunk is the number of tokens between two writes of the fast weights. 0 means the value of
	// the existing meta-learners; new ones get 64 (online), 128 (window) or 50 (words).
	Chunk int `json:"chunk"`
	// Rate is the largest learning rate of the meta-learners. 0 means .003, or .00025 if
	// Settings.Out is of the order of 1.
	Rate     float64 `json:"rate"`
	Final    float64 `json:"final"`    // fraction of Rate at the last step; 0 means .05
	Schedule string  `json:"schedule"` // as SlowOptions.Schedule
	// Branches are the weights that get fast weights; see model.Branches. nil means the branches of
	// the existing meta-learners; new ones get "upper" (online) or "paper" (window).
	Branches []string `json:"branches"`
	// Settings are the settings of serving and, in the online scheme, of training. A field that is
	// zero takes the value of the existing meta-learners; the betas do so only if both are zero.
	// New meta-learners get the settings of two banks (online) or the paper's (window).
	Settings sparsemeta.Settings `json:"settings"`
	// Normal makes new meta-learners normalize their inputs, by the gradient statistics of the
	// model to continue from. The trained model keeps the statistics.
	Normal *sparsemeta.Normal `json:"normal,omitempty"`
	// Companion puts a companion beside the network, as in sessions. The meta-learners (and, in
	// PhaseJoint, the slow weights) then learn from the mixture's losses, and all validations
	// measure the mixture. It is only for models of bytes and SchemeOnline. Meta-learners that
	// learned with a companion keep it when they are trained further. Among the networks of the
	// mixture, only the one with fast weights gets a gradient.
	Companion bool `json:"companion,omitempty"`
	// Mixture matters only with a companion, in training and in serving. It is the share of the
	// mixture's loss in the loss that the fast weights learn from; the network's loss has the rest.
	Mixture float32 `json:"mixture,omitempty"`
	// CompanionBytes is the size of the companion's table in training. Serving has the same
	// default. 0 means the size in the model to continue from, or else companion.TableBytesDefault.
	CompanionBytes int `json:"companion_bytes,omitempty"`
	// CompanionAlone makes sessions, by default, mix the companion with the adapting network only.
	// This saves the time for the static network. Models trained further from this model keep this
	// default.
	CompanionAlone bool          `json:"companion_alone,omitempty"`
	Online         OnlineOptions `json:"online"`
	Window         WindowOptions `json:"window"`
}

// OnlineOptions are the settings of the online scheme.
type OnlineOptions struct {
	Chunks int `json:"chunks"` // chunks whose gradients are summed for one step; 0 means 8
	// Sample is the sampling interval: a step's gradient is estimated from one in Sample fast
	// weights. 0 means 8.
	Sample int `json:"sample"`
	// Reset is the probability that M and I are set to zero where a piece of text begins. 0 means
	// .5; below 0, they are never set to zero.
	Reset    float64 `json:"reset"`
	PieceMin int     `json:"piece_min"` // tokens of the shortest pieces of text; 0 means 4096
	PieceMax int     `json:"piece_max"` // tokens of the longest pieces of text; 0 means 65536
}

// WindowOptions are the settings of the window scheme.
type WindowOptions struct {
	// K is the number of chunks of a window, of which the first k-1 write M. 0 means 5, or 4 for
	// words.
	K int `json:"k"`
	// GradientChunk is the number of tokens of the k-th chunk; 0 means 512, or 150 for words.
	GradientChunk int     `json:"gradient_chunk"`
	Batch         int     `json:"batch"` // streams that share M; 0 means 8
	P             float64 `json:"p"`     // probability that a write sets an entry; 0 means .05
}

// JointOptions are the settings of the slow weights in PhaseJoint; MetaOptions has the rest.
type JointOptions struct {
	Steps       int `json:"steps"` // steps of PhaseJoint; 0 means MetaOptions.Steps
	SlowOptions     // with Rate 0, the rate is .0001 (online) or .00025 (window)
}

// ValidationOptions say how a model is measured during training, always in bits per token.
type ValidationOptions struct {
	// Every is the number of steps between two measurements. 0 means ten measurements in a phase.
	// Below 0, only the end of a phase is measured; otherwise trained weights are also measured at
	// step 0.
	Every int `json:"every"`
	// Bytes limits how much of each file of Options.Valid is used. 0 means 16384 bytes; below 0,
	// the whole file is used. Text that is kept back is always used as a whole.
	Bytes int `json:"bytes"`
	// Patience ends a phase after this many consecutive validations without a better one; 0 means
	// that the phase does not end early.
	Patience int `json:"patience"`
	// OneStream makes all documents one stream that is never reset; otherwise each is a separate
	// stream.
	OneStream bool `json:"one_stream"`
}

// OptionError says that one field of Options has an invalid value.
type OptionError struct {
	Field string // path of the field, such as "Pretrain.Batch"
	Found string
	Want  string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("train: option %s is %s, expected %s", e.Field, e.Found, e.Want)
}
