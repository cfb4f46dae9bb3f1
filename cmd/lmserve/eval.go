package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/chart"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

func newEval() *cobra.Command {
	var flags modelFlags
	var data, picture string
	var asJSON, typing bool
	var shuffle uint64
	var typed eval.TypingOptions
	o := eval.Options{Settings: setting.Values{}}
	c := &cobra.Command{
		Use:   "eval --data DIR",
		Short: "Score documents with several methods side by side",
		Long: `Score every file below a directory with several methods on the same weights. The
tables show bits per byte of each document, of each domain (the first folder) and in
total; the gain and the cost of each method relative to the first; and bits per byte in
the first 2, 8, 32 and 128 KB of a document. 1 KB is 1024 bytes.

For a model of words, the tables show perplexities: 2 to the power of the bits per
token. A token is a word, an unknown word or the end of a line. Bits per byte count the
known words alone.

With --typing, a simulated writer types a part of each document and accepts suggestions.
The tables show how many keystrokes are saved by five candidates (words, or texts of any
length) and by one inline suggestion; the calibration of probabilities; and time and
work per keystroke.

Defaults of settings are the model's. A flag for a setting applies to every method that
has the setting.`,
		Example: `  lmserve eval --data docs --methods static,sparse-meta
  lmserve eval --data docs --model words --p 0.3 --chunk 50 --gammas 0.999
  lmserve eval --data docs --reset never --shuffle-seed 1 --json --chart stream.svg
  lmserve eval --data docs --typing --methods counts,sparse-meta+companion --read 2048,20480`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: a directory of documents")
			}
			o.Shuffle = given(c.Flags().Changed, "shuffle-seed", &shuffle)
			if picture != "" {
				if err := chart.CheckFile(picture); err != nil {
					return usagef("--chart: %w", err)
				}
				if n := len(o.Methods); n > chart.MaxLines {
					return usagef("--methods has %d methods, expected at most %d with --chart", n,
						chart.MaxLines)
				}
			}
			m, err := flags.load()
			if err != nil {
				return err
			}
			o.Threads = flags.threads
			if typing {
				typed.Methods, typed.Seed = o.Methods, o.Seed
				typed.Threads, typed.Settings = o.Threads, o.Settings
				return runTyping(c, m, data, typed, asJSON)
			}
			if err := o.Validate(m); err != nil {
				return settingError(err)
			}
			p := newProgress(c, "eval")
			defer p.end()
			o.Progress = p.set
			res, err := eval.Directory(c.Context(), m, data, o)
			p.end()
			if err != nil && !res.Interrupted {
				return err
			}
			// An interrupted evaluation prints its partial result.
			return errors.Join(err, writeEval(c.OutOrStdout(), res, asJSON, picture))
		},
	}
	flags.register(c)
	c.Flags().StringVar(&data, "data", "", "directory of documents, one document per file")
	c.Flags().StringSliceVar(&o.Methods, "methods", nil, "methods to compare: "+
		strings.Join(stream.Methods(), ", ")+
		", each optionally with "+eval.WithCompanion+", which mixes in counts of the text; "+
		stream.Counts+" is the counts alone, without the model; gain and cost are relative to "+
		"the first method (default: static and, if the model has meta-learners, "+
		"sparse-meta; for a model of bytes, both also with "+eval.WithCompanion+")")
	c.Flags().StringVar(&o.Reset, "reset", eval.ResetDocument,
		"when methods forget what they learned: document (each document is a separate "+
			"stream) or never (all documents are one stream)")
	c.Flags().Uint64Var(&shuffle, "shuffle-seed", 0,
		"seed of a random order of documents (default: none, documents are in the order of "+
			"their paths)")
	c.Flags().Int64Var(&o.MaxBytes, "max-bytes", 0,
		"bytes scored of each document, from its beginning; 0 means the whole document")
	c.Flags().Uint64Var(&o.Seed, "seed", 0,
		"seed of the masks that select which fast weights an update writes")
	rows := slices.DeleteFunc(slices.Clone(stream.Table),
		func(r setting.Row[stream.Settings]) bool {
			return r.Name == "method" || r.Name == "companion" // set by the flag --methods
		})
	settingFlags(c, rows, o.Settings)
	c.Flags().StringVar(&o.KV, "kv", eval.KVExact,
		"keys and values of the memory after an update of the fast weights: exact (recomputed, "+
			"as in sessions) or cached (as they were before the update)")
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of tables")
	c.Flags().StringVar(&picture, "chart", "",
		"file (.svg or .png) for a chart of bits per byte (with a model of words: perplexity) "+
			"against the number of bytes read (default: none)")
	typingFlags(c, &typing, &typed)
	renamed(c, map[string]string{"shuffle": "shuffle-seed"})
	return c
}

// writeEval prints a result as a table or as JSON. If picture names a file, writeEval also draws a
// chart of the documents.
func writeEval(w io.Writer, res eval.Result, asJSON bool, picture string) error {
	err := printed(w, res, asJSON, printEval)
	if err != nil || picture == "" || len(res.Documents) == 0 {
		return err
	}
	return res.Chart().Write(picture)
}
