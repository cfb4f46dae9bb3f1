package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/learning/train"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/internal/learning/train/report"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
)

type training struct {
	train.Options
	reporting
	Config    string // the name or file of a configuration, which determines Model
	Normalize bool   // sets Meta.Normal to sparsemeta.DefaultNormal
}

type reporting = report.Options

func newTrain() *cobra.Command {
	t := &training{}
	t.Store, t.Seed, t.Meta.Scheme = train.StoreDefault, 1, train.SchemeOnline
	t.Phases = []string{train.PhasePretrain, train.PhaseMeta}
	t.Pretrain.Schedule = optim.ScheduleCosine
	c := &cobra.Command{
		Use:   "train --data DIR --out FILE",
		Short: "Pretrain a model and meta-train its fast weights",
		Long: `Train a model on a directory of text files, one stream a file: first the static
model, then the meta-learners, which write its fast weights. The result is one file for
--model.

Only --data and --out are required. A part of the text is held out for validation.
Pretraining reads the text three times (1 to 20 million tokens), meta-training once
(0.25 to 1 million tokens). Each phase keeps its best weights.

--phase lists the phases to run, in order:
  pretrain  trains the slow weights
  meta      trains the meta-learners with fixed slow weights
  joint     trains both
A phase starts from the result of the previous phase or from --init's model. Phases meta
and joint continue to train existing meta-learners. If --branches, --gammas or
--normalize differ from those of the existing meta-learners, new ones are trained.

A token is a byte or, with --tokenizer words, a word or the end of a line. The
vocabulary has the most frequent words of the text, or those of a file. --init's model
keeps its tokenizer and vocabulary.

With --checkpoints, a run interrupted by Ctrl-C can be continued with --resume; the
result is bit-identical. --resume also starts a run without checkpoints, so the command
line need not change.`,
		Example: `  lmserve train --data texts --out mine.safetensors.zst
  lmserve train --data texts --out mine.safetensors.zst --checkpoints run --resume
  lmserve train --data texts --out better.safetensors.zst --phase meta --init mine.safetensors.zst`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c) },
	}
	t.register(c)
	return c
}

// trainFlag is a flag of the command train: its name, the path of its field in type training, and
// its help. Errors of train.Options contain the path of the field.
type trainFlag struct{ name, field, help string }

// trainFlags are the flags of train in the order of the help.
var trainFlags = []trainFlag{
	{"data", "Data", "directory of text files, one stream per file; its top-level folders are " +
		"domains"},
	{"out", "Out", "file for the model; compressed if the name ends in .zst"},
	{"store", "Store", "precision of the slow weights in --out: bf16, f16 or float32"},
	{"name", "Name", "name of the model (default: the name of the configuration or of " +
		"--init's model)"},
	{"phase", "Phases", "training phases in order: pretrain, meta, joint"},
	{"config", "Config", "configuration of a new model: " + configUsage() + " (default \"" +
		train.DefaultConfig + "\")"},
	{"tokenizer", "Tokenizer.Kind", "tokens of a new model: bytes or words (default bytes)"},
	{"vocab-size", "Tokenizer.Size", "words: maximum size of the vocabulary, including <eos> and " +
		"<unk> (default: unlimited)"},
	{"min-count", "Tokenizer.MinCount", "words: minimum occurrences of a vocabulary word " +
		"(default 3, or 1 with --vocab-size)"},
	{"vocab", "Tokenizer.Vocabulary", "words: vocabulary file of Transformer-XL's reference " +
		"implementation (default: none, the vocabulary is made from --data)"},
	{"init", "Init", "model file to start from; --config may then change lengths (seg_len, " +
		"mem_len, clamp_len, same_length) and untie_softmax, which copies the tables shared with " +
		"the softmax"},
	{"hold-out", "HoldOut", "domains left out of pretraining, only used by the other phases"},
	{"valid", "Valid", "directory of text files for validation, not in --data, or none " +
		"(default: a held-out part of --data)"},
	{"valid-every", "Validation.Every", "steps between validations (default: ten validations " +
		"a phase; -1 means one at the end of the phase)"},
	{"valid-bytes", "Validation.Bytes", "bytes of each file for validation (default 16384; -1 " +
		"means the whole file)"},
	{"valid-one-stream", "Validation.OneStream", "validation on all files as one stream, without " +
		"resets"},
	{"patience", "Validation.Patience", "validations without improvement before a phase ends " +
		"(default: unlimited)"},
	{"checkpoints", "Dir", "folder for checkpoints (default: none)"},
	{"resume", "Resume", "continuation from the last checkpoint, if a checkpoint exists"},
	{"checkpoint-every", "CheckpointEvery", "steps between checkpoints (default 500)"},
	{"metrics", "Metrics", "file to which metrics are appended, as JSON lines (default: " +
		"metrics.jsonl in the folder of checkpoints)"},
	{"log-every", "LogEvery", "steps between lines of metrics (default 10)"},
	{"report", "Page", "file for an HTML page with the recipe, results and curves (default: none)"},
	{"seed", "Seed", "seed of all random choices"},
	{"threads", "Threads", "number of threads; results do not depend on it (default: all)"},
	{"precision", "Precision", ""}, // the help of --precision is the same in all commands
	{"steps", "Pretrain.Steps", "pretraining: optimizer steps (default: three passes over the " +
		"text, 1 to 20 million tokens)"},
	{"batch", "Pretrain.Batch", "pretraining: streams in a batch (default 16)"},
	{"segment", "Pretrain.Segment", "pretraining: tokens of a stream in a step (default: the " +
		"configuration's)"},
	{"balance", "Pretrain.Balance", "pretraining: balance of domains, from 0 (in proportion to " +
		"their sizes) to 1 (equal shares)"},
	{"companion-share", "Pretrain.Companion", "pretraining: weight, 0 to 1, of the loss of the " +
		"mixture with a companion of counts in the training loss; the rest is the network's own " +
		"loss"},
	{"optimizer", "Pretrain.Optimizer", "pretraining: muon (orthogonal steps for the layers' " +
		"matrices) or adam (default muon)"},
	{"lr", "Pretrain.Rate", "pretraining: maximum learning rate (default 0.003, adam 0.001)"},
	{"warmup", "Pretrain.Warmup", "pretraining: warm-up steps (default: a twentieth of the " +
		"steps; -1 means no warm-up)"},
	{"schedule", "Pretrain.Schedule", "learning rate after the warm-up: cosine, wsd (constant, " +
		"then decay over the last fifth) or constant"},
	{"clip", "Pretrain.Clip", "slow weights: maximum norm of the gradient (default 0.25; -1 " +
		"means unlimited)"},
	{"dropout", "Pretrain.Dropout", "slow weights: dropout rate of hidden states"},
	{"attention-dropout", "Pretrain.AttentionDropout", "slow weights: dropout rate of attention"},
	{"scheme", "Meta.Scheme", "meta, joint: method of meta-training, online or window (Algorithm " +
		"1 of the paper)"},
	{"meta-steps", "Meta.Steps", "meta: steps (default: one pass over the text, 0.25 to 1 " +
		"million tokens; for window, three passes, 1 to 20 million tokens)"},
	{"chunk", "Meta.Chunk", "meta, joint: tokens between two updates of the fast weights " +
		"(default 64; window: 128; words: 50)"},
	{"meta-lr", "Meta.Rate", "meta, joint: maximum learning rate of the meta-learners (default " +
		"0.003 online, 0.00025 window)"},
	{"branches", "Meta.Branches", "meta, joint: weights that get fast weights: paper, wide, " +
		"softmax (weights used by the softmax alone), upper (softmax, and the feed-forward " +
		"layers of the upper half), or name patterns (default upper; window: paper)"},
	{"gammas", "Meta.Settings.Gammas", "meta, joint: decay of the gradient average when serving, " +
		"`numbers` for all banks (default 0.99,0.99975; window: 0.999)"},
	{"p", "Meta.Settings.P", "meta, joint: probability, when serving, that an update writes a " +
		"fast weight (default 0.5; words: 0.3)"},
	{"normalize", "Normalize", "meta, joint: division of the meta-learners' gradients by their " +
		"usual size, from the gradient statistics of --init's model"},
	{"companion", "Meta.Companion", "meta, joint, online: training and validation with the loss " +
		"of the mixture with a companion (default: as --init's meta-learners were trained)"},
	{"mixture", "Meta.Mixture", "meta, joint, with a companion: weight, 0 to 1, of the mixture's " +
		"loss in the loss that the fast weights learn from, in training and serving; the rest is " +
		"the network's loss (default: the weight in --init's model)"},
	{"companion-bytes", "Meta.CompanionBytes", "size of the companion's table, a power of two, " +
		"in training and by default in serving (default: the size in --init's model)"},
	{"companion-alone", "Meta.CompanionAlone", "default of the model's sessions: companion mixed " +
		"with the adapting network alone, without the static model"},
	{"meta-chunks", "Meta.Online.Chunks", "meta, joint, online: chunks in a step (default 8)"},
	{"joint-steps", "Joint.Steps", "joint: steps (default: the value of --meta-steps)"},
	{"joint-lr", "Joint.Rate", "joint: maximum learning rate of the slow weights (default 0.0001 " +
		"online, 0.00025 window)"},
}

// register registers the flags. Their defaults are the current values of the fields.
func (t *training) register(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	for _, row := range trainFlags {
		switch p := row.in(t).(type) {
		case *string:
			f.StringVar(p, row.name, *p, row.help)
		case *bool:
			f.BoolVar(p, row.name, *p, row.help)
		case *int:
			f.IntVar(p, row.name, *p, row.help)
		case *int64:
			f.Int64Var(p, row.name, *p, row.help)
		case *uint64:
			f.Uint64Var(p, row.name, *p, row.help)
		case *float32:
			f.Float32Var(p, row.name, *p, row.help)
		case *float64:
			f.Float64Var(p, row.name, *p, row.help)
		case *[]string:
			f.StringSliceVar(p, row.name, *p, row.help)
		case *[]float32:
			f.Float32SliceVar(p, row.name, *p, row.help)
			f.Lookup(row.name).DefValue = "" // the help then shows no default
		case *kernel.Precision:
			precisionFlag(c, p)
		}
	}
	renamed(c, map[string]string{"normalise": "normalize"})
}

func (r trainFlag) in(t *training) any {
	field := reflect.ValueOf(t).Elem()
	for _, name := range strings.Split(r.field, ".") {
		field = field.FieldByName(name)
	}
	return field.Addr().Interface()
}

func (t *training) run(c *cobra.Command) error {
	if t.Data == "" {
		return usagef("--data is missing: a directory of text files")
	}
	if t.Out == "" && t.Dir == "" {
		return usagef("neither --out nor --checkpoints is given, expected one of them: the " +
			"result would be lost")
	}
	if t.Config != "" {
		vocab := 0
		if t.Tokenizer.Kind == tokenizer.KindWords || t.Init != "" {
			// An upper bound, because training makes the vocabulary later or takes it from the
			// model of --init.
			vocab = tokenizer.MaxVocab
		}
		name, model, err := readConfig(c.Context(), t.Config, vocab)
		if err != nil {
			return err
		}
		t.Model = model
		if t.Name == "" && t.Init == "" {
			t.Name = name
		}
	}
	if t.Normalize {
		t.Meta.Normal = new(sparsemeta.DefaultNormal())
	}
	t.Meta.Schedule = t.Pretrain.Schedule
	joint := &t.Joint.SlowOptions
	joint.Schedule, joint.Clip = t.Pretrain.Schedule, t.Pretrain.Clip
	joint.Dropout, joint.AttentionDropout = t.Pretrain.Dropout, t.Pretrain.AttentionDropout
	if quiet, _ := c.Flags().GetBool(quietName); !quiet {
		t.Progress = c.ErrOrStderr()
	}
	err := cmp.Or(t.Outside("Page", t.Page), t.Outside("Metrics", t.Metrics))
	if err != nil {
		return trainError(err)
	}
	if t.Observer, err = report.New(t.reporting); err != nil {
		return trainError(err)
	}
	done, err := train.Run(c.Context(), t.Options)
	if err != nil {
		return trainError(err)
	}
	_, err = fmt.Fprint(c.OutOrStdout(), done)
	return err
}

// trainError names the flag of an invalid option, or explains how to resume an interrupted run.
func trainError(err error) error {
	var option *train.OptionError
	if errors.As(err, &option) {
		made := map[string]string{"Model": "Config", "Meta.Normal": "Normalize"}
		field := cmp.Or(made[option.Field], option.Field)
		for _, row := range trainFlags {
			if row.field == field {
				return usagef("--%s is %s, expected %s", row.name, option.Found, option.Want)
			}
		}
		return usageError{err}
	}
	var interrupted *train.InterruptedError
	if errors.As(err, &interrupted) && interrupted.Checkpoint != "" {
		return fmt.Errorf("%w; to continue, run the same command with --resume", err)
	}
	return err
}
