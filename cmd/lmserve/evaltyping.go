package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

func typingFlags(c *cobra.Command, typing *bool, o *eval.TypingOptions) {
	c.Flags().BoolVar(typing, "typing", false,
		"keystrokes that suggestions save for a simulated writer, instead of bits; --methods may "+
			"then include "+eval.NGram+" and "+eval.NGramPrior+
			", which use no neural network")
	c.Flags().StringVar(&o.Prior, "prior", "",
		"with --typing: directory of text that "+eval.NGramPrior+" reads before the "+
			"documents: at most 20 MB in all, and the same fraction of each file")
	c.Flags().Int64SliceVar(&o.Read, "read", eval.TypingRead,
		"with --typing: bytes that a session has read before the typing; several numbers "+
			"make several tests")
	c.Flags().IntVar(&o.Window, "window", eval.TypingWindow,
		"with --typing: number of characters that are typed from each document")
	c.Flags().Float64Var(&o.Threshold, "threshold", eval.TypingThreshold,
		"with --typing: minimum probability of an inline suggestion")
}

func runTyping(
	c *cobra.Command, m *model.Model, data string, o eval.TypingOptions, asJSON bool,
) error {
	for _, flag := range []string{"reset", "shuffle-seed", "max-bytes", "kv", "chart"} {
		if onCommandLine(c, flag) {
			return usagef("--%s and --typing are both given, expected one of them", flag)
		}
	}
	if err := o.Validate(m); err != nil {
		return settingError(err)
	}
	p := newProgressOf(c, "eval", "character")
	defer p.end()
	o.Progress = p.set
	res, err := eval.Typing(c.Context(), m, data, o)
	p.end()
	if err != nil && !res.Interrupted {
		return err
	}
	return errors.Join(err, printed(c.OutOrStdout(), res, asJSON, printTyping))
}

func printTyping(w io.Writer, res eval.TypingResult) error {
	var text bytes.Buffer
	interrupted := ""
	if res.Interrupted {
		interrupted = " (interrupted; not all documents were scored)"
	}
	fmt.Fprintf(&text, `model %s
%s%s: the writer types %d characters of each document, after the session has read some bytes

Five candidates after every keystroke: percent of keystrokes saved. Accepting a candidate
is one keystroke.
word: the rest of the word, or the next word; word+: a word behind up to ten separators;
free: text with any end. For free candidates, per keystroke: milliseconds at the median and the
99th percentile, and prefixes that the network reads (rows).

`, res.Model, res.Data, interrupted, res.Window)
	typingTable(&text, res, []string{"word", "word+", "free"},
		func(s eval.TypingScore) (eval.Typed, []float64) {
			return s.Free, []float64{s.Word.Saved, s.WordPlus.Saved, s.Free.Saved}
		})
	fmt.Fprintf(&text, `
One candidate inline, with any end, shown if its probability is at least %g: percent of the
keystrokes saved, of the keystrokes after which a candidate is shown, and of the shown
candidates that are right.

`, res.Threshold)
	typingTable(&text, res, []string{"saved", "shown", "right"},
		func(s eval.TypingScore) (eval.Typed, []float64) {
			return s.Inline, []float64{s.Inline.Saved, s.Inline.Shown, s.Inline.Right}
		})
	printCalibration(&text, res)
	if len(res.TooShort) > 0 {
		fmt.Fprint(&text, "\nOmitted, because they are too short:\n")
	}
	for _, d := range res.TooShort {
		fmt.Fprintf(&text, "%s, of %d bytes, after %d bytes read\n", d.Document, d.Bytes, d.Read)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// typingTable prints a row for each document and method, and rows for the means over several
// documents.
func typingTable(
	text *bytes.Buffer, res eval.TypingResult, names []string,
	of func(eval.TypingScore) (eval.Typed, []float64),
) {
	t := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(names, "\t")+"\tms\tp99\trows\tread\tmethod\tdocument\t")
	row := func(name string, s eval.TypingScore) {
		typed, shares := of(s)
		for _, share := range shares {
			fmt.Fprintf(t, "%.1f\t", share)
		}
		fmt.Fprintf(t, "%.1f\t%.0f\t%.1f\t", typed.P50, typed.P99, typed.Rows)
		fmt.Fprintf(t, "%d\t%s\t%s\t\n", s.Read, s.Method, name)
	}
	means := func(scores []eval.TypingScore) {
		for _, s := range scores {
			if s.Documents > 1 {
				row(fmt.Sprintf("%s, %s", cmp.Or(s.Domain, "mean"), documents(s.Documents)), s)
			}
		}
	}
	for _, s := range res.Scores {
		row(s.Document, s)
	}
	if len(res.Domains) > len(res.Total) { // with one domain, the total has the same numbers
		means(res.Domains)
	}
	means(res.Total)
	_ = t.Flush()
}

// printCalibration prints a table for each method. A row covers the candidates whose probability is
// in one tenth of the range from 0 to 1.
func printCalibration(text *bytes.Buffer, res eval.TypingResult) {
	fmt.Fprint(text, `
Calibration: mean probability of the candidates, share of them that is right, their number.
Of free candidates, the first of each list counts.
`)
	for _, method := range res.Methods {
		modes := slices.DeleteFunc(slices.Clone(res.Calibration),
			func(c eval.Calibration) bool { return c.Method != method })
		if len(modes) == 0 {
			continue
		}
		fmt.Fprintf(text, "\n%s\n", method)
		t := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, c := range modes {
			fmt.Fprintf(t, "%s\tright\tof\t", c.Mode)
		}
		fmt.Fprintln(t)
		for tenth := range 10 {
			line := ""
			for _, c := range modes {
				line += calibrationCells(c, tenth)
			}
			if strings.Trim(line, "\t") != "" {
				fmt.Fprintln(t, line)
			}
		}
		_ = t.Flush()
	}
}

// calibrationCells returns the cells for candidates with a probability from tenth/10 to
// (tenth+1)/10.
func calibrationCells(c eval.Calibration, tenth int) string {
	for _, b := range c.Buckets {
		if min(int(10*b.Said), 9) == tenth {
			return fmt.Sprintf("%.2f\t%.2f\t%d\t", b.Said, b.Right, b.Candidates)
		}
	}
	return "\t\t\t"
}
