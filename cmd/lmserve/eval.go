package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/eval"
)

func newEval() *cobra.Command {
	var flags modelFlags
	var data string
	var asJSON bool
	o := eval.Options{}
	c := &cobra.Command{
		Use:     "eval --data DIR",
		Short:   "Score documents with several methods side by side",
		Example: "  lmserve eval --data docs --methods static,sparse-meta",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := flags.load()
			if err != nil {
				return err
			}
			o.Threads = flags.threads
			bar := newByteBar(c.ErrOrStderr(), "eval")
			o.Progress = bar.set
			res, err := eval.Directory(c.Context(), m, data, o)
			bar.finish()
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(res)
			}
			return printEval(c.OutOrStdout(), res)
		},
	}
	flags.register(c)
	c.Flags().StringVar(&data, "data", "", "directory of documents, each file a stream of its own")
	c.Flags().StringSliceVar(&o.Methods, "methods", nil, "static, sparse-meta (default: all the model has)")
	c.Flags().Int64Var(&o.MaxBytes, "max-bytes", 0, "score only the first bytes of each document (0: all)")
	c.Flags().Uint64Var(&o.Seed, "seed", 0, "seed of the masks")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = c.MarkFlagRequired("data")
	return c
}

func printEval(w io.Writer, res eval.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "model %s, bits per character (of a byte-level model: per byte)\n", res.Model)
	fmt.Fprint(t, "bytes\t")
	for _, m := range res.Methods {
		fmt.Fprintf(t, "%s\t", m)
	}
	if len(res.Methods) > 1 {
		fmt.Fprint(t, "gain\t")
	}
	fmt.Fprintln(t, " document")
	for _, d := range append(res.Documents, res.Total) {
		fmt.Fprintf(t, "%d\t", d.Bytes)
		for _, s := range d.Scores {
			fmt.Fprintf(t, "%.4f\t", s.BPC)
		}
		if n := len(d.Scores); n > 1 {
			fmt.Fprintf(t, "%+.4f\t", d.Scores[0].BPC-d.Scores[n-1].BPC)
		}
		fmt.Fprintf(t, " %s\n", d.Path)
	}
	return t.Flush()
}
