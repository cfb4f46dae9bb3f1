package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/train"
	"github.com/lmserve/lmserve/internal/train/optim"
	"github.com/lmserve/lmserve/internal/train/report"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
)

func newTrain() *cobra.Command {
	o, told := train.Options{}, report.Options{}
	var config string
	var normalise bool
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
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Data == "" {
				return usageError{errors.New("--data is missing: a directory of text files")}
			}
			if o.Out == "" && o.Dir == "" {
				return usageError{errors.New("neither --out nor --checkpoints is given: the result would be lost")}
			}
			if config != "" {
				vocab := 0
				if o.Tokenizer.Kind == tokenizer.KindWords || o.Init != "" {
					vocab = tokenizer.MaxVocab // it is not made yet, or in the model
				}
				name, model, err := readConfigFor(c.Context(), config, vocab)
				if err != nil {
					return err
				}
				o.Model = model
				if o.Name == "" && o.Init == "" {
					o.Name = name
				}
			}
			if normalise {
				normal := sparsemeta.DefaultNormal()
				o.Meta.Normal = &normal
			}
			o.Meta.Schedule = o.Pretrain.Schedule
			joint := &o.Joint.SlowOptions
			joint.Schedule, joint.Clip = o.Pretrain.Schedule, o.Pretrain.Clip
			joint.Dropout, joint.AttentionDropout = o.Pretrain.Dropout, o.Pretrain.AttentionDropout
			if quiet, _ := c.Flags().GetBool(quietName); !quiet {
				told.Progress = c.ErrOrStderr()
			}
			var err error
			if o.Observer, err = report.New(told); err != nil {
				return trainError(err)
			}
			done, err := train.Run(c.Context(), o)
			if err != nil {
				return trainError(err)
			}
			_, err = fmt.Fprint(c.OutOrStdout(), done)
			return err
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Data, "data", "", "directory of text files, each a stream; its first folders are domains")
	f.StringVar(&o.Out, "out", "", "file to write the model to; compressed if it ends in .zst")
	f.StringVar(&o.Store, "store", train.StoreDefault, "slow weights in that file: bf16, f16 or float32")
	f.StringVar(&o.Name, "name", "", "the model's name (default that of the configuration, or of --init's model)")
	f.StringSliceVar(&o.Phases, "phase", []string{train.PhasePretrain, train.PhaseMeta}, "phases in order: pretrain, meta, joint")
	f.StringVar(&config, "config", "", configUsage()+" (default \""+train.DefaultConfig+"\")")
	f.StringVar(&o.Tokenizer.Kind, "tokenizer", "",
		"what a token of a new model is: bytes or words (default bytes)")
	f.IntVar(&o.Tokenizer.Size, "vocab-size", 0,
		"words: most symbols of the vocabulary, <eos> and <unk> among them (default: no limit)")
	f.Int64Var(&o.Tokenizer.MinCount, "min-count", 0,
		"words: how often a word of the vocabulary occurs in the text at least "+
			"(default 3, or 1 beside --vocab-size)")
	f.StringVar(&o.Tokenizer.Vocabulary, "vocab", "",
		"words: vocabulary file of Transformer-XL's reference implementation "+
			"(default: the vocabulary is made from --data)")
	f.StringVar(&o.Init, "init", "",
		"model file to go on from; a --config beside it may have other lengths (seg_len, mem_len, "+
			"clamp_len, same_length), or untie_softmax, which copies tables that the softmax shares")
	f.StringSliceVar(&o.HoldOut, "hold-out", nil, "domains kept out of pretraining, for the other phases alone")
	f.StringVar(&o.Valid, "valid", "", "directory of text files for validation, or none (default: a part of --data is kept back)")
	f.IntVar(&o.Validation.Every, "valid-every", 0, "steps between two validations (default: ten a phase; -1: at its end)")
	f.IntVar(&o.Validation.Bytes, "valid-bytes", 0, "bytes of each validation file (default 16384; -1: all)")
	f.BoolVar(&o.Validation.OneStream, "valid-one-stream", false, "validate all files as one stream, never reset")
	f.IntVar(&o.Validation.Patience, "patience", 0, "end a phase after so many validations without a better one (default: never)")

	f.StringVar(&o.Dir, "checkpoints", "", "folder for checkpoints")
	f.BoolVar(&o.Resume, "resume", false, "go on from the last checkpoint, if there is one")
	f.IntVar(&o.CheckpointEvery, "checkpoint-every", 0, "steps between two checkpoints (default 500)")
	f.StringVar(&told.Metrics, "metrics", "", "file to append metrics to, as JSON lines (default metrics.jsonl in the folder of the checkpoints)")
	f.IntVar(&told.LogEvery, "log-every", 0, "steps between two lines of metrics (default 10)")

	f.StringVar(&told.Page, "report", "", "file of a page (HTML) with the recipe, the results and the curves")

	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything random")
	f.IntVar(&o.Threads, "threads", 0, "threads; the result does not depend on it (default all)")
	precisionFlag(c, &o.Precision)

	f.IntVar(&o.Pretrain.Steps, "steps", 0, "pretraining: optimiser steps "+
		"(default: three times through the text, 1 to 20 million tokens)")
	f.IntVar(&o.Pretrain.Batch, "batch", 0, "pretraining: streams read side by side (default 16)")
	f.IntVar(&o.Pretrain.Segment, "segment", 0, "pretraining: tokens a stream and step (default the configuration's)")
	f.Float64Var(&o.Pretrain.Balance, "balance", 0,
		"pretraining: from 0, all tokens are read alike, to 1, all domains are; between, small ones "+
			"more often than by their size")
	f.Float32Var(&o.Pretrain.Companion, "companion-share", 0,
		"pretraining: share, in what is learnt from, of the loss of the mixture with a companion of "+
			"counts; the network's own loss has the rest")
	f.StringVar(&o.Pretrain.Optimizer, "optimizer", "", "pretraining: muon (the layers' matrices take orthogonal steps) or adam (default muon)")
	f.Float64Var(&o.Pretrain.Rate, "lr", 0, "pretraining: largest learning rate (default 0.003, adam 0.001)")
	f.IntVar(&o.Pretrain.Warmup, "warmup", 0, "pretraining: warm-up steps (default a twentieth of the steps; -1: none)")
	f.StringVar(&o.Pretrain.Schedule, "schedule", optim.ScheduleCosine, "learning rates after the warm-up: cosine, wsd (stable, then down over the last fifth) or constant")
	f.Float64Var(&o.Pretrain.Clip, "clip", 0, "slow weights: largest gradient norm (default 0.25; -1: none)")
	f.Float64Var(&o.Pretrain.Dropout, "dropout", 0, "slow weights: dropout on hidden states")
	f.Float64Var(&o.Pretrain.AttentionDropout, "attention-dropout", 0, "slow weights: dropout on attention")

	f.StringVar(&o.Meta.Scheme, "scheme", train.SchemeOnline, "meta, joint: online, or window (the paper's Algorithm 1)")
	f.IntVar(&o.Meta.Steps, "meta-steps", 0, "meta: steps (default: once through the text, "+
		"a quarter to one million tokens; window: as --steps)")
	f.IntVar(&o.Meta.Chunk, "chunk", 0, "meta, joint: tokens between two updates of the fast "+
		"weights (default 64; window: 128; words: 50)")
	f.Float64Var(&o.Meta.Rate, "meta-lr", 0, "meta, joint: largest learning rate of the meta-learners (default 0.003 online, 0.00025 window)")
	f.StringSliceVar(&o.Meta.Branches, "branches", nil,
		"meta, joint: weights that get fast weights: paper, wide, softmax (what the softmax has to "+
			"itself), upper (that, and the feed-forward layers of the upper half), or patterns of "+
			"names (default upper; window: paper)")
	f.Float32SliceVar(&o.Meta.Settings.Gammas, "gammas", nil,
		"meta, joint: decay of the gradient average in serving, `numbers` for all banks "+
			"(default 0.99,0.99975; window: 0.999)")
	f.Lookup("gammas").DefValue = "" // for help
	f.Float64Var(&o.Meta.Settings.P, "p", 0, "meta, joint: probability in serving that an update "+
		"writes one fast weight (default 0.5; words: 0.3)")
	f.BoolVar(&normalise, "normalise", false, "meta, joint: divide what the meta-learners see of a "+
		"weight's gradients by their usual size, by the statistics that the model of --init has")
	f.BoolVar(&o.Meta.Companion, "companion", false, "meta, joint, online: learn from the loss of the "+
		"mixture with a companion, and validate it")
	f.Float32Var(&o.Meta.Mixture, "mixture", 0, "meta, joint, beside a companion: share of the "+
		"mixture's loss in what the fast weights learn from, in serving too; the rest is the network's")
	f.IntVar(&o.Meta.CompanionBytes, "companion-bytes", 0, "size of the companion's table, a power "+
		"of two, in training and by default in serving (default that of --init's model)")
	f.BoolVar(&o.Meta.CompanionAlone, "companion-alone", false, "sessions of the model mix the "+
		"companion with the network that adapts alone, unless they ask for the static one besides")
	f.IntVar(&o.Meta.Online.Chunks, "meta-chunks", 0, "meta, joint, online: chunks of one step (default 8)")
	f.IntVar(&o.Joint.Steps, "joint-steps", 0, "joint: steps (default as --meta-steps)")
	f.Float64Var(&o.Joint.Rate, "joint-lr", 0, "joint: largest learning rate of the slow weights (default 0.0001 online, 0.00025 window)")
	return c
}

// trainFlags names the flags of the options.
var trainFlags = map[string]string{
	"Phases": "phase", "Model": "config", "Init": "init", "Data": "data", "Dir": "checkpoints", "Store": "store", "Threads": "threads",
	"Tokenizer.Kind": "tokenizer", "Tokenizer.Size": "vocab-size", "Tokenizer.MinCount": "min-count",
	"LogEvery": "log-every", "CheckpointEvery": "checkpoint-every", "Validation.Patience": "patience",
	"Pretrain.Steps": "steps", "Pretrain.Batch": "batch", "Pretrain.Segment": "segment", "Pretrain.Balance": "balance", "Pretrain.Rate": "lr", "Pretrain.Optimizer": "optimizer", "Pretrain.Warmup": "warmup",
	"Pretrain.Schedule": "schedule", "Pretrain.Clip": "clip", "Pretrain.Dropout": "dropout", "Pretrain.AttentionDropout": "attention-dropout",
	"Meta.Scheme": "scheme", "Meta.Steps": "meta-steps", "Meta.Chunk": "chunk", "Meta.Rate": "meta-lr", "Meta.Online.Chunks": "meta-chunks", "Meta.Normal": "normalise",
	"Meta.Companion": "companion", "Meta.Mixture": "mixture", "Meta.CompanionBytes": "companion-bytes", "Meta.CompanionAlone": "companion-alone", "Pretrain.Companion": "companion-share",
	"Joint.Steps": "joint-steps", "Joint.Rate": "joint-lr",
}

// trainError names the flag of an option that is wrong, and says how an interrupted run goes on.
func trainError(err error) error {
	var option *train.OptionError
	if errors.As(err, &option) {
		if flag, ok := trainFlags[option.Field]; ok {
			return usageError{fmt.Errorf("--%s is %s, expected %s", flag, option.Found, option.Want)}
		}
		return usageError{err}
	}
	var interrupted *train.InterruptedError
	if errors.As(err, &interrupted) && interrupted.Checkpoint != "" {
		return fmt.Errorf("%w (the same command with --resume goes on)", err)
	}
	return err
}
