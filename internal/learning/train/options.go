package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// The values of Options.Phases name the phases of a run.
const (
	PhasePretrain = "pretrain" // trains only the slow weights; the result is a static model
	PhaseMeta     = "meta"     // trains only the meta-learners; the slow weights are frozen
	PhaseJoint    = "joint"    // trains slow weights and meta-learners together
)

// The values of MetaOptions.Scheme name the schemes that train meta-learners.
const (
	SchemeOnline = "online" // trains on one stream, with fast weights that change as in serving
	// trains on windows of k chunks: Algorithm 1 of Munkhdalai, Sparse Meta Networks, 2020
	SchemeWindow = "window"
)

// ValidNone is the value of Options.Valid for a run without validation.
const ValidNone = "none"

// DefaultConfig is the default configuration of a run.
const DefaultConfig = "small"

// StoreDefault is the default type of stored slow weights: it needs half of the bytes of float32,
// and hardly changes the scores.
const StoreDefault = "bf16"

var storeTypes = map[string]weights.DType{"float32": weights.F32, "bf16": weights.BF16,
	"f16": weights.F16}

// Options describe a run. Zero fields mean the given defaults.
//
// A phase continues with the slow weights and meta-learners of the previous phase, the first phase
// with those of Init. Pretraining keeps meta-learners. The other phases train existing
// meta-learners further if these fit the options. Otherwise the phases make new meta-learners.
// Existing meta-learners do not fit if the options ask for other branches, other inputs or another
// number of banks. Meta-learners with a Normal are dropped if the run pretrains or adds
// untie_softmax, because their gradient statistics are those of other weights.
type Options struct {
	// Phases are the phases of the run in their order. A phase occurs at most once, and
	// PhasePretrain only at the beginning. nil means PhasePretrain and PhaseMeta.
	Phases []string

	Init string // path of a model file to continue from; "" means a new model with random weights
	// Model is the configuration. NLayer 0 means the configuration of the model Init or, without
	// Init, DefaultConfig. With Init, only seg_len, mem_len, clamp_len, same_length and
	// untie_softmax may differ from the initial model. The field untie_softmax can become true, but
	// not false. If untie_softmax becomes true, the softmax gets copies of the tables that it
	// shared with the embeddings.
	Model txl.Config

	// Tokenizer selects the tokens of a new model. It must be empty with Init.
	Tokenizer TokenizerOptions

	// directory of text files; each file is a stream, and its top folder names its domain
	Data string
	// domains that pretraining leaves out, so that their text is new to the other phases
	HoldOut []string
	// Valid is a directory of text files for validation, or ValidNone. The run must not train on
	// any of these files. If Valid is "", a part of Data is kept back for validation.
	Valid string

	Out string // path of the model's file; "" means that no file is written
	// Store is the type of the slow weights in the file Out: "float32", "bf16" or "f16". "" means
	// StoreDefault.
	Store string
	// Name is the model's name in the file Out. "" means the name of the model Init or of
	// DefaultConfig, else "model".
	Name   string
	Dir    string // folder of the checkpoints, made if it is missing; "" means no checkpoints
	Resume bool

	Observer Observer // gets the events of the run; may be nil

	Seed    uint64 // seed of the weights, the order of the text, dropout and masks
	Threads int    // number of threads, which does not change results; 0 means GOMAXPROCS

	Precision kernel.Precision // precision of the matrix products; "" means kernel.Float32

	Pretrain   PretrainOptions
	Meta       MetaOptions
	Joint      JointOptions
	Validation ValidationOptions

	CheckpointEvery int // steps between two checkpoints; 0 means 500
}

// TokenizerOptions select the tokenizer of a new model. The size of a word vocabulary replaces
// Options.Model.Vocab.
type TokenizerOptions struct {
	Kind string // tokenizer.KindBytes (also "") or tokenizer.KindWords
	// Vocabulary is a vocabulary file of the Transformer-XL reference implementation. If it is "",
	// the vocabulary is made from the pretraining text in Data.
	Vocabulary string
	// VocabularyOptions choose the words of a vocabulary that is made from Data. If Size and
	// MinCount are 0, MinCount becomes MinCountDefault. With a vocabulary file, both must be 0.
	tokenizer.VocabularyOptions
}

// MinCountDefault is the default minimum count of a word in the vocabulary. The vocabulary of
// WikiText-103 has the same minimum (Merity et al., Pointer Sentinel Mixture Models, 2016). Rarer
// words become unknown words in the training text, so that the model learns to expect unknown
// words.
const MinCountDefault = 3

// The values of SlowOptions.Optimizer name the optimizers of the slow weights.
const (
	OptimizerAdam = "adam"
	// optim.Muon for the matrices of the layers, optim.Adam for the other weights
	OptimizerMuon = "muon"
)

// SlowOptions set the optimizer of the slow weights, with its schedule and clipping.
type SlowOptions struct {
	// Optimizer is OptimizerMuon or OptimizerAdam. "" means Muon in pretraining, and Adam in
	// PhaseJoint.
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
	// Balance gives small domains more weight: a domain is read in proportion to
	// tokens^(1-Balance). With 0, all tokens count equally; with 1, all domains count equally.
	Balance float64 `json:"balance"`
	// Companion, if above 0, gives every stream a companion, as in sessions. The value, 0 to 1, is
	// the share of the mixture's loss in the loss that trains the slow weights; the network's loss
	// has the rest. Validations then measure the mixture. Only models of bytes can have companions.
	Companion float32 `json:"companion,omitempty"`
	SlowOptions
}

// MetaOptions are the settings of the phases that train meta-learners.
type MetaOptions struct {
	Scheme string `json:"scheme"` // SchemeOnline (also "") or SchemeWindow
	// Steps is the number of optimizer steps in PhaseMeta. With the online scheme, 0 means one pass
	// over the text, but at least 256 Ki tokens and at most 1 Mi. With the window scheme, 0 means
	// three passes over the text, but at least 1 Mi tokens and at most 20 Mi.
	Steps int `json:"steps"`
	// Chunk is the number of tokens between two writes of the fast weights. 0 means the value of
	// the existing meta-learners. For new meta-learners, 0 means 64 (online), 128 (window) or 50
	// (any model of words).
	Chunk int `json:"chunk"`
	// Rate is the largest learning rate of the meta-learners. 0 means .003, or .00025 if
	// Settings.Out is of the order of 1.
	Rate     float64 `json:"rate"`
	Final    float64 `json:"final"`    // fraction of Rate at the last step; 0 means .05
	Schedule string  `json:"schedule"` // as in SlowOptions.Schedule
	// Branches are the weights that get fast weights; see model.Branches. nil means the branches of
	// the existing meta-learners. New meta-learners get "upper" (online) or "paper" (window).
	Branches []string `json:"branches"`
	// Settings are the settings of serving and, in the online scheme, of training. A zero field
	// takes the value of the existing meta-learners. Beta1 and Beta2 take these values only if both
	// are zero. New meta-learners get the settings of two banks (online) or of the paper on Sparse
	// Meta Networks (window).
	Settings sparsemeta.Settings `json:"settings"`
	// Normal makes new meta-learners normalize their inputs, with the gradient statistics of the
	// model to continue from. The trained model keeps the statistics.
	Normal *sparsemeta.Normal `json:"normal,omitempty"`
	// Companion adds a companion to the network, as in sessions. The meta-learners (and, in
	// PhaseJoint, the slow weights) then learn from the mixture's losses, and all validations
	// measure the mixture. Only models of bytes with SchemeOnline can have a companion.
	// Meta-learners that learned with a companion keep it when they are trained further. Of the
	// mixture's networks, only the network with fast weights gets a gradient.
	Companion bool `json:"companion,omitempty"`
	// Mixture is the share of the mixture's loss in the loss that the fast weights learn from. It
	// applies in training and in serving. The network's loss has the rest. 0 means the share of
	// the existing meta-learners. Without a companion, Mixture has no effect.
	Mixture float32 `json:"mixture,omitempty"`
	// CompanionBytes is the size of the companion's table in training, and the default in serving.
	// 0 means the size in the model to continue from, or else companion.TableBytesDefault.
	CompanionBytes int `json:"companion_bytes,omitempty"`
	// CompanionAlone makes sessions, by default, mix the companion with the adapting network only.
	// This saves the time for the static network. Models trained further from the resulting model
	// keep this default.
	CompanionAlone bool          `json:"companion_alone,omitempty"`
	Online         OnlineOptions `json:"online"`
	Window         WindowOptions `json:"window"`
}

// OnlineOptions are the settings of the online scheme.
type OnlineOptions struct {
	Chunks int `json:"chunks"` // chunks whose gradients are summed for one step; 0 means 8
	// Sample is the sampling interval: a step estimates the gradient from 1/Sample of the fast
	// weights. 0 means 8.
	Sample int `json:"sample"`
	// Reset is the probability that fast weights and gradient averages become zero at the start of
	// a piece of text. 0 means .75; below 0, they are never set to zero.
	Reset    float64 `json:"reset"`
	PieceMin int     `json:"piece_min"` // tokens of the shortest pieces of text; 0 means 4096
	PieceMax int     `json:"piece_max"` // tokens of the longest pieces of text; 0 means 524288
}

// WindowOptions are the settings of the window scheme.
type WindowOptions struct {
	// K is the number of chunks of a window. All chunks except the last write the fast weights. 0
	// means 5, or 4 for a model of words.
	K int `json:"k"`
	// GradientChunk is the number of tokens of a window's last chunk; 0 means 512, or 150 for a
	// model of words.
	GradientChunk int `json:"gradient_chunk"`
	Batch         int `json:"batch"` // streams that share fast weights; 0 means 8
	// probability that a write sets an element of the fast weights; 0 means .05
	P float64 `json:"p"`
}

// JointOptions are the settings of the slow weights in PhaseJoint. The meta-learners use
// MetaOptions.
type JointOptions struct {
	Steps       int `json:"steps"` // steps of PhaseJoint; 0 means MetaOptions.Steps
	SlowOptions     // Rate 0 means .0001 (online) or .00025 (window)
}

// ValidationOptions say how a model is measured during training, always in bits per token.
type ValidationOptions struct {
	// Every is the number of steps between two measurements. 0 means ten measurements in a phase.
	// Below 0, only the end of a phase is measured. Otherwise, weights that are already trained are
	// also measured at step 0.
	Every int `json:"every"`
	// Bytes limits how much of each file of Options.Valid is used. 0 means 16384 bytes; below 0,
	// the whole file is used. Text kept back from Options.Data is always used as a whole.
	Bytes int `json:"bytes"`
	// Patience is the number of consecutive validations without improvement after which a phase
	// ends. 0 means that the phase does not end early.
	Patience int `json:"patience"`
	// OneStream makes all documents one stream that is never reset; otherwise each document is a
	// separate stream.
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
