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
		Long: `Score every file below a directory with several methods on the same weights: bits
per byte of each document, of each domain (its first folder) and in total, what
each method gains over the first one and costs beside it, and the curve over the
first 2, 8, 32, 128 KB of a document. 1 KB is 1024 bytes.

Of a model of words it is perplexities: 2 to the power of the bits a token, where the
end of a line is a token, and an unknown word is one, too. Bits per byte, beside them,
are of the words that are known.

With --typing a simulated writer types a part of each document, and accepts candidates
for what comes next: how many keys five candidates save, of words and with free ends,
and one that is shown inline; whether probabilities are right; time and work a key.

The settings are the model's. Flags for settings hold for every method that has them.`,
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
	c.Flags().StringVar(&data, "data", "", "directory of documents, one a file")
	c.Flags().StringSliceVar(&o.Methods, "methods", nil, "methods to compare: "+
		strings.Join(stream.Methods(), ", ")+
		", each also with "+eval.WithCompanion+" behind it, beside counts of the text; "+
		stream.Counts+" is these alone, without the model; gain and "+
		"cost are against the first (default: static and, if the model has meta-learners, "+
		"sparse-meta; of a model of bytes then the same with "+eval.WithCompanion+")")
	c.Flags().StringVar(&o.Reset, "reset", eval.ResetDocument, "when the methods forget: "+
		"document (each document is a stream of its own) or never (all are one stream)")
	c.Flags().Uint64Var(&shuffle, "shuffle-seed", 0, "score the documents in an order drawn at "+
		"random from this seed (default: in the order of their paths)")
	c.Flags().Int64Var(&o.MaxBytes, "max-bytes", 0, "score only the first bytes of each document "+
		"(0: all)")
	c.Flags().Uint64Var(&o.Seed, "seed", 0, "seed of the masks that say which fast weights an "+
		"update writes")
	rows := slices.DeleteFunc(slices.Clone(stream.Table),
		func(r setting.Row[stream.Settings]) bool {
			return r.Name == "method" || r.Name == "companion" // --methods sets them
		})
	settingFlags(c, rows, o.Settings)
	c.Flags().StringVar(&o.KV, "kv", eval.KVExact,
		"keys and values of the memory when the fast weights that make them move: "+
			"exact (computed again, as sessions do) or cached (kept as they are)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of tables")
	c.Flags().StringVar(&picture, "chart", "",
		"draw bits per byte against bytes seen, or the perplexity of words, to this .svg or .png file")
	typingFlags(c, &typing, &typed)
	renamed(c, map[string]string{"shuffle": "shuffle-seed"})
	return c
}

// writeEval prints a result. If it has documents and a picture file is named, writeEval draws them.
func writeEval(w io.Writer, res eval.Result, asJSON bool, picture string) error {
	err := printed(w, res, asJSON, printEval)
	if err != nil || picture == "" || len(res.Documents) == 0 {
		return err
	}
	return res.Chart().Write(picture)
}
