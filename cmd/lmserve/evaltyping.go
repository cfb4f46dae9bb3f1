package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

// typingFlags are those of eval --typing.
func typingFlags(c *cobra.Command, typing *bool, o *eval.TypingOptions) {
	c.Flags().BoolVar(typing, "typing", false,
		"count the keys of a simulated writer who accepts suggestions, instead of bits; "+
			"of --methods, "+eval.NGram+" and "+eval.NGramPrior+" are rivals without a network then")
	c.Flags().StringVar(&o.Prior, "prior", "",
		"with --typing: directory of text that "+eval.NGramPrior+" has read before all else, "+
			"20 MB at most, the same share of each file")
	c.Flags().Int64SliceVar(&o.Read, "read", eval.TypingRead,
		"with --typing: bytes that a session has read before, or several numbers of them")
	c.Flags().IntVar(&o.Window, "window", eval.TypingWindow,
		"with --typing: characters that are typed of each document")
	c.Flags().Float64Var(&o.Threshold, "threshold", eval.TypingThreshold,
		"with --typing: least probability of a suggestion that is shown inline")
}

// runTyping types, and prints what was counted.
func runTyping(
	c *cobra.Command, m *model.Model, data string, o eval.TypingOptions, asJSON bool,
) error {
	for _, flag := range []string{"reset", "shuffle-seed", "max-bytes", "kv", "chart"} {
		if c.Flags().Changed(flag) {
			return usagef("--%s is of bits, expected --typing without it", flag)
		}
	}
	if err := o.Validate(m); err != nil {
		return settingError(err)
	}
	p := newProgress(c, "eval")
	defer p.end()
	o.Progress = p.set
	res, err := eval.Typing(c.Context(), m, data, o)
	p.end()
	if err != nil && !res.Interrupted {
		return err
	}
	return errors.Join(err, printed(c.OutOrStdout(), res, asJSON, printTyping))
}

// printTyping prints a result for people: a row a document and method, the means, and how often
// candidates of a probability were right.
func printTyping(w io.Writer, res eval.TypingResult) error {
	var text bytes.Buffer
	interrupted := ""
	if res.Interrupted {
		interrupted = " (interrupted; there are more)"
	}
	fmt.Fprintf(&text, "model %s\n%s%s: %d characters of each document, after the bytes read\n"+
		"percent of the keys saved by five candidates: words, words behind more separators, any ends;\n"+
		"and by one shown inline from a probability of %g on: saved, shown, right;\n"+
		"milliseconds at p50 and p99, rows of the network a key\n\n",
		res.Model, res.Data, interrupted, res.Window, res.Threshold)
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "word\tword+\tfree\tms\tp99\trows\t"+
		"inline\tshown\tright\tms\tp99\trows\tread\t  method\t  document\t")
	row := func(name string, s eval.TypingScore) {
		free, inline := s.Free, s.Inline
		fmt.Fprintf(t, "%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t"+
			"%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%d\t  %s\t  %s\t\n",
			s.Word.Saved, s.WordPlus.Saved, free.Saved, free.P50, free.P99, free.Rows,
			inline.Saved, inline.Shown, inline.Right, inline.P50, inline.P99, inline.Rows,
			s.Read, s.Method, name)
	}
	for _, s := range res.Scores {
		row(s.Document, s)
	}
	for _, s := range res.Domains {
		row(fmt.Sprintf("%s, %s", s.Domain, documents(s.Documents)), s)
	}
	for _, s := range res.Total {
		row(fmt.Sprintf("mean, %s", documents(s.Documents)), s)
	}
	_ = t.Flush() // to memory
	fmt.Fprint(&text, "\nprobabilities: said, right of so many candidates\n\n")
	for _, c := range res.Calibration {
		fmt.Fprintf(&text, "%s, %s:", c.Method, c.Mode)
		for _, b := range c.Buckets {
			fmt.Fprintf(&text, "  %.2f %.2f of %d", b.Said, b.Right, b.Candidates)
		}
		fmt.Fprintln(&text)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
