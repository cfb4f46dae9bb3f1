package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/train"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

func newTrain() *cobra.Command {
	o := train.Options{}
	gammas := []float32{}
	p := -1.0
	c := &cobra.Command{
		Use:   "train --data DIR --out FILE",
		Short: "Pretrain a model and meta-train its fast weights",
		Long: `Train on a directory of text files, each file a stream: first the static model,
then, by what its fast weights gain on a changing stream, the meta-learners. The
model that comes out is one file for --model.

With --checkpoints a run can be interrupted and go on with --resume, to the same
bits as if it had not been.`,
		Example: `  lmserve train --data texts --out mine.safetensors.zst --checkpoints run --steps 5000
  lmserve train --data texts --out better.safetensors.zst --phase meta --from mine.safetensors.zst`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Out == "" && o.Dir == "" {
				return usageError{errors.New("neither --out nor --checkpoints is given: the result would be lost")}
			}
			if len(gammas) > 0 || p >= 0 {
				o.Meta.Settings = sparsemeta.TwoBankSettings()
				if o.Meta.Scheme == train.SchemeWindow {
					o.Meta.Settings = sparsemeta.PaperSettings()
				}
				if len(gammas) > 0 {
					o.Meta.Settings.Gammas = gammas
				}
				if p >= 0 {
					o.Meta.Settings.P = p
				}
			}
			o.Progress = c.ErrOrStderr()
			report, err := train.Run(c.Context(), o)
			var option *train.OptionError
			if errors.As(err, &option) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.OutOrStdout(), report)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Data, "data", "", "directory of text files, each a stream; its first folders are domains")
	f.StringVar(&o.Valid, "valid", "", "directory of text files for validation")
	f.StringSliceVar(&o.HoldOut, "hold-out", nil, "domains kept out of pretraining, for the meta-phase alone")
	f.StringVar(&o.Out, "out", "", "file to write the model to; compressed if it ends in .zst")
	f.StringVar(&o.Name, "name", "", "the model's name (default: the configuration's)")
	f.StringVar(&o.Phase, "phase", train.PhaseBoth, "both, pretrain or meta")
	f.StringVar(&o.Config, "config", "", "named configuration: "+strings.Join(txl.Names(), ", ")+" (default \"default\")")
	f.StringVar(&o.From, "from", "", "model file to go on from, instead of a configuration")
	f.StringVar(&o.Dir, "checkpoints", "", "folder for checkpoints")
	f.BoolVar(&o.Resume, "resume", false, "go on from the last checkpoint")
	f.StringVar(&o.Metrics, "metrics", "", "file to append metrics to, as JSON lines")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything random")
	f.IntVar(&o.Threads, "threads", 0, "threads; the result does not depend on it (default all)")
	precisionFlag(c)
	f.IntVar(&o.LogEvery, "log-every", 0, "steps between two lines of metrics (default 10)")
	f.IntVar(&o.CheckpointEvery, "checkpoint-every", 0, "steps between two checkpoints (default 500)")
	f.IntVar(&o.Validation.Every, "valid-every", 0, "steps between two validations (default at the end of a phase)")
	f.IntVar(&o.Validation.Bytes, "valid-bytes", 0, "bytes of each validation file (default 16384; -1: all)")
	f.BoolVar(&o.Validation.OneStream, "valid-one-stream", false, "validate all files as one stream, never reset")

	f.IntVar(&o.Pretrain.Steps, "steps", 0, "pretraining: optimiser steps (default 2000)")
	f.IntVar(&o.Pretrain.Batch, "batch", 0, "pretraining: streams read side by side (default 8)")
	f.IntVar(&o.Pretrain.Segment, "segment", 0, "pretraining: tokens a stream and step (default the configuration's)")
	f.StringVar(&o.Pretrain.Optimizer, "optimizer", "", "pretraining: adam or muon (default adam)")
	f.Float64Var(&o.Pretrain.Rate, "lr", 0, "pretraining: largest learning rate (default 0.001)")
	f.IntVar(&o.Pretrain.Warmup, "warmup", 0, "pretraining: warm-up steps (default a twentieth of the steps; -1: none)")
	f.Float64Var(&o.Pretrain.Clip, "clip", 0, "pretraining: largest gradient norm (default 0.25; -1: none)")
	f.Float64Var(&o.Pretrain.Dropout, "dropout", 0, "pretraining: dropout on hidden states")
	f.Float64Var(&o.Pretrain.AttentionDropout, "attention-dropout", 0, "pretraining: dropout on attention")

	f.StringVar(&o.Meta.Scheme, "scheme", train.SchemeOnline, "meta: online, or window (the paper's Algorithm 1)")
	f.IntVar(&o.Meta.Steps, "meta-steps", 0, "meta: optimiser steps (default 1000)")
	f.IntVar(&o.Meta.Chunk, "chunk", 0, "meta: tokens between two updates of the fast weights (default 128)")
	f.Float64Var(&o.Meta.Rate, "meta-lr", 0, "meta: largest learning rate (default 0.003 online, 0.00025 window)")
	f.StringSliceVar(&o.Meta.Branches, "branches", nil, "meta: weights that get fast weights: paper, wide, or patterns")
	f.Float32SliceVar(&gammas, "gammas", nil, "meta: decay of the gradient average, one a bank")
	f.Float64Var(&p, "p", -1, "meta: probability that an update writes one fast weight")
	f.IntVar(&o.Meta.Online.Chunks, "meta-chunks", 0, "meta, online: chunks summed for one step (default 4)")
	_ = c.MarkFlagRequired("data")
	return c
}
