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

// training holds the flags of train.
type training struct {
	train.Options
	reporting
	Config    string // a name or a file; sets Model
	Normalise bool   // sets Meta.Normal
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
		Long: `Train on a directory of text files, each file a stream: first the static model,
then, by what its fast weights gain on a changing stream, the meta-learners. The
model that comes out is one file for --model.

Nothing but --data and --out is needed. A part of the text is kept back to measure
the model on; pretraining reads the text three times (1 to 20 million tokens),
meta-training once (a quarter to one million tokens); each phase keeps the weights
that did best.

Phases, of which --phase lists those to run, in order:
  pretrain  the slow weights alone
  meta      the meta-learners alone, the slow weights stand still
  joint     both together
A phase goes on with what the one before it, or the model of --init, has. Meta and
joint train the meta-learners they find further, unless --branches, --gammas or
--normalise ask for others than these; then they are made anew.

A token is a byte or, with --tokenizer words, a word or the end of a line. The words
of the vocabulary are those of the text, the most frequent first, or those of a file.
A model of --init brings its tokenizer and its vocabulary with it.

With --checkpoints a run can be interrupted (Ctrl-C) and go on with --resume, to the
same bits as if it had not been. --resume starts a run that has no checkpoint yet, so
that one command line serves every sitting.`,
		Example: `  lmserve train --data texts --out mine.safetensors.zst
  lmserve train --data texts --out mine.safetensors.zst --checkpoints run --resume
  lmserve train --data texts --out better.safetensors.zst --phase meta --init mine.safetensors.zst`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.run(c) },
	}
	t.register(c)
	return c
}

// trainFlag is a flag of train: its name, the path of its field in training, and a line of help.
// Errors of train.Options name the field.
type trainFlag struct{ name, field, help string }

// trainFlags are the flags of train in the order of the help.
var trainFlags = []trainFlag{
	{"data", "Data", "directory of text files, each a stream; its first folders are domains"},
	{"out", "Out", "file to write the model to; compressed if it ends in .zst"},
	{"store", "Store", "slow weights in that file: bf16, f16 or float32"},
	{"name", "Name", "the model's name (default that of the configuration, or of --init's model)"},
	{"phase", "Phases", "phases in order: pretrain, meta, joint"},
	{"config", "Config", configUsage() + " (default \"" + train.DefaultConfig + "\")"},
	{"tokenizer", "Tokenizer.Kind", "what a token of a new model is: bytes or words (default " +
		"bytes)"},
	{"vocab-size", "Tokenizer.Size", "words: most symbols of the vocabulary, <eos> and <unk> " +
		"among them (default: no limit)"},
	{"min-count", "Tokenizer.MinCount", "words: how often a word of the vocabulary occurs in the " +
		"text at least (default 3, or 1 beside --vocab-size)"},
	{"vocab", "Tokenizer.Vocabulary", "words: vocabulary file of Transformer-XL's reference " +
		"implementation (default: the vocabulary is made from --data)"},
	{"init", "Init", "model file to go on from; a --config beside it may have other lengths " +
		"(seg_len, mem_len, clamp_len, same_length), or untie_softmax, which copies tables that " +
		"the softmax shares"},
	{"hold-out", "HoldOut", "domains kept out of pretraining, for the other phases alone"},
	{"valid", "Valid", "directory of text files for validation, or none (default: a part of " +
		"--data is kept back)"},
	{"valid-every", "Validation.Every", "steps between two validations (default: ten a phase; " +
		"-1: at its end)"},
	{"valid-bytes", "Validation.Bytes", "bytes of each validation file (default 16384; -1: all)"},
	{"valid-one-stream", "Validation.OneStream", "validate all files as one stream, never reset"},
	{"patience", "Validation.Patience", "end a phase after so many validations without a better " +
		"one (default: never)"},
	{"checkpoints", "Dir", "folder for checkpoints"},
	{"resume", "Resume", "go on from the last checkpoint, if there is one"},
	{"checkpoint-every", "CheckpointEvery", "steps between two checkpoints (default 500)"},
	{"metrics", "Metrics", "file to append metrics to, as JSON lines (default metrics.jsonl in " +
		"the folder of the checkpoints)"},
	{"log-every", "LogEvery", "steps between two lines of metrics (default 10)"},
	{"report", "Page", "file of a page (HTML) with the recipe, the results and the curves"},
	{"seed", "Seed", "seed of everything random"},
	{"threads", "Threads", "threads; the result does not depend on it (default all)"},
	{"precision", "Precision", ""}, // shares the help of all commands
	{"steps", "Pretrain.Steps", "pretraining: optimiser steps (default: three times through the " +
		"text, 1 to 20 million tokens)"},
	{"batch", "Pretrain.Batch", "pretraining: streams read side by side (default 16)"},
	{"segment", "Pretrain.Segment", "pretraining: tokens a stream and step (default the " +
		"configuration's)"},
	{"balance", "Pretrain.Balance", "pretraining: from 0, all tokens are read alike, to 1, all " +
		"domains are; between, small ones more often than by their size"},
	{"companion-share", "Pretrain.Companion", "pretraining: share, in what is learnt from, of " +
		"the loss of the mixture with a companion of counts; the network's own loss has the rest"},
	{"optimizer", "Pretrain.Optimizer", "pretraining: muon (the layers' matrices take orthogonal " +
		"steps) or adam (default muon)"},
	{"lr", "Pretrain.Rate", "pretraining: largest learning rate (default 0.003, adam 0.001)"},
	{"warmup", "Pretrain.Warmup", "pretraining: warm-up steps (default a twentieth of the steps; " +
		"-1: none)"},
	{"schedule", "Pretrain.Schedule", "learning rates after the warm-up: cosine, wsd (stable, " +
		"then down over the last fifth) or constant"},
	{"clip", "Pretrain.Clip", "slow weights: largest gradient norm (default 0.25; -1: none)"},
	{"dropout", "Pretrain.Dropout", "slow weights: dropout on hidden states"},
	{"attention-dropout", "Pretrain.AttentionDropout", "slow weights: dropout on attention"},
	{"scheme", "Meta.Scheme", "meta, joint: online, or window (the paper's Algorithm 1)"},
	{"meta-steps", "Meta.Steps", "meta: steps (default: once through the text, a quarter to one " +
		"million tokens; window: as --steps)"},
	{"chunk", "Meta.Chunk", "meta, joint: tokens between two updates of the fast weights " +
		"(default 64; window: 128; words: 50)"},
	{"meta-lr", "Meta.Rate", "meta, joint: largest learning rate of the meta-learners (default " +
		"0.003 online, 0.00025 window)"},
	{"branches", "Meta.Branches", "meta, joint: weights that get fast weights: paper, wide, " +
		"softmax (what the softmax has to itself), upper (that, and the feed-forward layers of " +
		"the upper half), or patterns of names (default upper; window: paper)"},
	{"gammas", "Meta.Settings.Gammas", "meta, joint: decay of the gradient average in serving, " +
		"`numbers` for all banks (default 0.99,0.99975; window: 0.999)"},
	{"p", "Meta.Settings.P", "meta, joint: probability in serving that an update writes one fast " +
		"weight (default 0.5; words: 0.3)"},
	{"normalise", "Normalise", "meta, joint: divide what the meta-learners see of a weight's " +
		"gradients by their usual size, by the statistics that the model of --init has"},
	{"companion", "Meta.Companion", "meta, joint, online: learn from the loss of the mixture " +
		"with a companion, and validate it"},
	{"mixture", "Meta.Mixture", "meta, joint, beside a companion: share of the mixture's loss in " +
		"what the fast weights learn from, in serving too; the rest is the network's"},
	{"companion-bytes", "Meta.CompanionBytes", "size of the companion's table, a power of two, " +
		"in training and by default in serving (default that of --init's model)"},
	{"companion-alone", "Meta.CompanionAlone", "sessions of the model mix the companion with the " +
		"network that adapts alone, unless they ask for the static one besides"},
	{"meta-chunks", "Meta.Online.Chunks", "meta, joint, online: chunks of one step (default 8)"},
	{"joint-steps", "Joint.Steps", "joint: steps (default as --meta-steps)"},
	{"joint-lr", "Joint.Rate", "joint: largest learning rate of the slow weights (default 0.0001 " +
		"online, 0.00025 window)"},
}

// register registers the flags, with the training's values as defaults.
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
			f.Lookup(row.name).DefValue = "" // for help
		case *kernel.Precision:
			precisionFlag(c, p)
		}
	}
}

// in returns the address of the flag's field.
func (r trainFlag) in(t *training) any {
	field := reflect.ValueOf(t).Elem()
	for _, name := range strings.Split(r.field, ".") {
		field = field.FieldByName(name)
	}
	return field.Addr().Interface()
}

// run trains and prints the result.
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
			vocab = tokenizer.MaxVocab // the vocabulary does not exist yet, or is in the model
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
	if t.Normalise {
		t.Meta.Normal = new(sparsemeta.DefaultNormal())
	}
	t.Meta.Schedule = t.Pretrain.Schedule
	joint := &t.Joint.SlowOptions
	joint.Schedule, joint.Clip = t.Pretrain.Schedule, t.Pretrain.Clip
	joint.Dropout, joint.AttentionDropout = t.Pretrain.Dropout, t.Pretrain.AttentionDropout
	if quiet, _ := c.Flags().GetBool(quietName); !quiet {
		t.Progress = c.ErrOrStderr()
	}
	var err error
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

// trainError names the flag of an invalid option, and says how to resume an interrupted run.
func trainError(err error) error {
	var option *train.OptionError
	if errors.As(err, &option) {
		made := map[string]string{"Model": "Config", "Meta.Normal": "Normalise"}
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
		return fmt.Errorf("%w (the same command with --resume continues)", err)
	}
	return err
}
