package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
	"github.com/lmserve/lmserve/internal/lab/tune"
	"github.com/lmserve/lmserve/internal/learning/train"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/weights"
)

// Gradient statistics are computed from statisticsChunks random chunks of the text. statisticsSeed
// is the seed for the selection of the chunks.
const (
	statisticsChunks = 2000
	statisticsSeed   = 1
)

// methodsNone is the value of --methods that tunes no method; the command then only gathers
// statistics.
const methodsNone = "none"

func newTune() *cobra.Command {
	var flags modelFlags
	var t tuning
	c := &cobra.Command{
		Use:   "tune --data DIR --out FILE",
		Short: "Tune dynamic evaluation and the cache for a model",
		Long: `Search for the best settings of dynamic evaluation and of the continuous cache, and
write a model with these settings as defaults. The documents of a directory are scored,
each as a separate stream. The best settings give the fewest bits per byte, or the
lowest perplexity of words. The search walks a logarithmic grid, from the model's
current settings, as long as the score improves.

dynamic-rms needs statistics of gradients on training text; --statistics gathers them
first if the model has none. --methods none gathers the statistics alone, for example
for 'lmserve train --normalize', and needs no --data.`,
		Example: `  lmserve tune --data valid --statistics train --out tuned.safetensors.zst
  lmserve tune --data valid --methods cache --model mine.safetensors --out tuned.safetensors`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return usageError{err}
			}
			m, err := flags.load()
			if err != nil {
				return err
			}
			t.threads = flags.threads
			t.progress = newProgress(c, "tune")
			defer t.progress.end()
			t.w = t.progress.beside(c.OutOrStdout())
			return t.run(c.Context(), m)
		},
	}
	flags.register(c)
	c.Flags().StringVar(&t.data, "data", "", "directory of validation documents, one document "+
		"per file")
	c.Flags().StringVar(&t.out, "out", "",
		"file for the model, written after the statistics and after each method; compressed "+
			"if the name ends in .zst")
	c.Flags().StringSliceVar(&t.methods, "methods", tune.Methods(), "methods to tune, separated "+
		"by commas; the word none means no method")
	c.Flags().StringVar(&t.statistics, "statistics", "",
		"directory of training text from which statistics of gradients are computed (default: "+
			"none are computed)")
	c.Flags().Int64Var(&t.maxBytes, "max-bytes", 8192,
		"bytes scored of each document, from its beginning; 0 means the whole document")
	return c
}

type tuning struct {
	data, statistics string
	out              string
	methods          []string
	maxBytes         int64
	threads          int
	w                io.Writer
	progress         *progress
}

func (t *tuning) check() error {
	if slices.Equal(t.methods, []string{methodsNone}) {
		t.methods = nil
		if t.statistics == "" {
			return errors.New("--methods is none and --statistics is missing: expected at least " +
				"one method, or --statistics")
		}
	}
	if t.methods != nil && len(t.methods) == 0 {
		return fmt.Errorf("--methods is empty, expected %s, or %s",
			strings.Join(tune.Methods(), ", "), methodsNone)
	}
	if t.data == "" && t.methods != nil {
		return errors.New("--data is missing, expected a directory of documents")
	}
	if t.out == "" {
		return errors.New("--out is missing, expected a file for the model")
	}
	for _, method := range t.methods {
		if !slices.Contains(tune.Methods(), method) {
			return fmt.Errorf("--methods: found %q, expected %s", method,
				strings.Join(tune.Methods(), ", "))
		}
	}
	if t.maxBytes < 0 {
		return fmt.Errorf("--max-bytes is %d, expected 0 (no limit) or more", t.maxBytes)
	}
	if err := train.CanWrite(t.out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := train.Outside("Out", t.out, t.data, t.statistics); err != nil {
		return trainError(err)
	}
	return nil
}

func (t *tuning) run(ctx context.Context, m *model.Model) error {
	var texts [][]byte
	var err error
	if t.methods != nil {
		if texts, err = eval.Texts(t.data, t.maxBytes); err != nil {
			return err
		}
	}
	if t.statistics != "" {
		if m, err = t.gather(ctx, m); err != nil {
			return err
		}
		if err := t.write(m); err != nil {
			return err
		}
	}
	for _, method := range t.methods {
		if err := stream.Supports(m, method); err != nil {
			return fmt.Errorf("%w; to add statistics of gradients, use --statistics", err)
		}
	}
	for _, method := range t.methods {
		if m, err = t.tune(ctx, m, method, texts); err != nil {
			return err
		}
		if err := t.write(m); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(t.w, "model %s written to %s\n", m.ID(), t.out)
	return err
}

func (t *tuning) write(m *model.Model) error {
	return weights.WriteFile(t.out, m.File(), weights.OptionsFor(t.out))
}

// tune prints a line for each trial that is better than all earlier trials.
func (t *tuning) tune(ctx context.Context, m *model.Model, method string,
	texts [][]byte) (*model.Model, error) {
	params, err := tune.Parameters(m, method)
	if err != nil {
		return nil, err
	}
	describe := func(trial tune.Trial) string {
		var s strings.Builder
		for i, v := range trial.Values {
			fmt.Fprintf(&s, "%s %-9v ", params[i].Name, v)
		}
		return s.String()
	}
	trials := 0
	unit, score := tuneUnit(m)
	t.progress.beginOf(method, "trial")
	m, best, err := tune.Method(ctx, m, method, texts, t.threads, func(trial tune.Trial) {
		trials++
		if trial.Best {
			fmt.Fprintf(t.w, "%-12s %3d  %s %s\n", method, trials, describe(trial),
				score(trial.Score))
		}
		t.progress.say(fmt.Sprintf("%s, %s %s; if none is better", method,
			strings.TrimSpace(describe(trial)), score(trial.Score)))
		t.progress.set(int64(trials), int64(trials+trial.Left))
	})
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(t.w, "%s: %s%s %s, the best of %d trials\n", method, describe(best),
		score(best.Score), unit, trials)
	return m, err
}

// tuneUnit returns the unit of a trial's score, and a function that converts bits per token to this
// unit.
func tuneUnit(m *model.Model) (name string, text func(bits float64) string) {
	if m.OfWords() {
		return "perplexity", func(bits float64) string {
			return fmt.Sprintf("%.3f",
				math.Exp2(bits))
		}
	}
	return "bits per byte", func(bits float64) string { return fmt.Sprintf("%.4f", bits) }
}

func (t *tuning) gather(ctx context.Context, m *model.Model) (*model.Model, error) {
	if m.Learner != nil && m.Learner.Normal != nil {
		return nil, fmt.Errorf("--statistics: %w", model.ErrStatisticsInUse)
	}
	text, err := corpus.Load(ctx, t.statistics, 0)
	if err != nil {
		return nil, err
	}
	t.progress.beginOf("gathering the statistics of gradients", "chunk")
	x := kernel.NewExecIn(t.threads, m.Arithmetic)
	defer x.Close()
	rms, err := train.GradientRMS(ctx, x, m, text, statisticsChunks, m.Chunk, statisticsSeed,
		t.progress.set)
	if err != nil {
		return nil, err
	}
	return m.WithStatistics(rms)
}
