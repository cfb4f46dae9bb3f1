package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type scoring struct {
	connectFlags
	stream    streamFlags
	choice    lineChoice
	learn     string
	lines     bool
	records   recordFlags
	trouble   string
	compare   bool
	totalOnly bool
	asJSON    bool
}

func newScore() *cobra.Command {
	var k scoring
	c := &cobra.Command{
		Use:   "score [FILE...|-]",
		Short: "Score text and print bits per character, by chunk or by line",
		Long: `Score files (or standard input) as one stream, and print bits per character of each
chunk and in total. The model adapts as it reads; each chunk is scored before the update
that it causes. Text from a pipe is scored and printed as soon as it arrives.

With --lines, each line is printed with its number, bits, bits per character and rank:
1/2300 is the strangest of about 2,300 lines (see docs/watch.md). --threshold and --top
select strange lines. With --records, several lines that form a record, such as a stack
trace, count as one.

For a model of words, each chunk has a perplexity, the number of words that the
vocabulary does not have, and bits per byte of the other words. A word is scored when
the white space after the word arrives. A last word without a newline gets no score.

After Ctrl-C, score prints the total so far.`,
		Example: `  lmserve score --compare access.log
  journalctl | lmserve score
  lmserve score --lines --top 20 access.log
  lmserve score --server http://127.0.0.1:8080 --session web --learn false new.log`,
		RunE: func(c *cobra.Command, files []string) error { return k.run(c, files) },
	}
	k.connectFlags.register(c)
	k.stream.register(c)
	k.choice.register(c, "")
	flags := c.Flags()
	flags.StringVar(&k.shadow, "shadow-model", "",
		"second model that scores the same text; its bits per byte are printed below the "+
			"total of the first\n"+
			"(a file; with --server, the name of one of its models)")
	flags.StringVar(&k.learn, "learn", string(client.LearnTrue),
		"learning from the text: true, false (the session does not change), or\n"+
			"unflagged (with --lines: all lines except those stranger than --threshold)")
	flags.BoolVar(&k.lines, "lines", false, "one row for each line of the text")
	k.records.register(c)
	registerTroubleWords(c, &k.trouble)
	flags.BoolVar(&k.compare, "compare", false,
		"scores of the static model too: the slow weights alone, without companion")
	flags.BoolVar(&k.totalOnly, "total-only", false, "only the total")
	flags.BoolVar(&k.asJSON, "json", false, "output as JSON, one object for each chunk or line")
	renamed(c, map[string]string{"total": "total-only"})
	rate := flags.Lookup("rate")
	rate.Value = oldThreshold{rate.Value, c}
	return c
}

// oldThreshold is the flag --rate of the command score. A decimal number sets the learning rate. A
// fraction such as 1/100 sets --threshold, which older versions called --rate.
type oldThreshold struct {
	pflag.Value
	c *cobra.Command
}

func (f oldThreshold) Set(text string) error {
	if !strings.Contains(text, "/") {
		return f.Value.Set(text)
	}
	fmt.Fprintf(f.c.ErrOrStderr(), "lmserve: --rate %s is deprecated, use --threshold %[1]s\n",
		text)
	return f.c.Flags().Set("threshold", text)
}

func (k *scoring) options(c *cobra.Command, threshold float64) (o client.ScoreOptions, err error) {
	o = client.ScoreOptions{Lines: k.lines, Learn: client.Learn(k.learn)}
	if err := k.records.apply(&o); err != nil {
		return o, err
	}
	k.lines = o.Lines
	if o.TroubleWords, err = troubleWords(k.trouble); err != nil {
		return o, err
	}
	if k.trouble != "" && !k.lines {
		return o, usagef("--trouble-words is given without --lines, expected both")
	}
	o.Tokens = k.lines && !o.Records
	switch o.Learn {
	case client.LearnTrue, client.LearnFalse:
	case client.LearnUnflagged:
		o.Threshold = threshold
		if !k.lines {
			err = fmt.Errorf("--learn is %s, expected true or false without --lines", k.learn)
		}
	default:
		err = fmt.Errorf("--learn is %q, expected %s, %s or %s", k.learn,
			client.LearnTrue, client.LearnFalse, client.LearnUnflagged)
	}
	if err == nil && !k.lines && (onCommandLine(c, "threshold") || onCommandLine(c, "top")) {
		err = errors.New("--threshold or --top is given without --lines, expected --lines too")
	}
	if err != nil {
		return o, usageError{err}
	}
	return o, nil
}

func (k *scoring) run(c *cobra.Command, files []string) error {
	threshold, err := k.choice.check(c)
	if err != nil {
		return err
	}
	options, err := k.options(c, threshold)
	if err != nil {
		return err
	}
	if err := k.checkShadow(); err != nil {
		return err
	}
	if k.compare {
		k.stream.asked["baseline"] = true
	}
	r, err := k.stream.request()
	if err != nil {
		return err
	}
	if onCommandLine(c, "seed") {
		r.Seed = &k.stream.seed
	}
	in, closeIn, err := openAll(c.Context(), files, c.InOrStdin())
	if err != nil {
		return err
	}
	defer closeIn()
	return k.withSession(c, r, k.stream.seed, func(cl *client.Client, s client.Session) error {
		if err := k.stream.checkEffect(string(s.Settings.Method)); err != nil {
			return err
		}
		return k.score(c, cl, s, options, files, in, threshold)
	})
}

type eventPrinter interface {
	event(e client.Event) error
	printTotal(partial bool) error
	bytes() int64
}

// score feeds a text and prints the events. It prints the total even after an error.
func (k *scoring) score(
	c *cobra.Command, cl *client.Client, s client.Session, o client.ScoreOptions,
	files []string, in io.Reader, threshold float64,
) error {
	name := orWord(strings.Join(files, ", "), len(files) == 0, "standard input")
	progress := newProgress(c, "scoring "+name)
	defer progress.end()
	p := k.printer(c, s, progress.beside(c.OutOrStdout()), threshold)
	all := sizeOfAll(files)
	event := func(e client.Event) error {
		err := p.event(e)
		progress.set(p.bytes(), all)
		return err
	}
	diverged, err := feed(c.Context(), cl, s, in, o, event)
	progress.end()
	err = errors.Join(err, p.printTotal(err != nil))
	if diverged > 0 {
		err = errors.Join(err, errors.New(watch.DivergedNote(diverged)))
	}
	if err != nil {
		return err
	}
	return k.readOn(c, cl, s.ID)
}

func (k *scoring) printer(
	c *cobra.Command, s client.Session, out io.Writer, threshold float64,
) eventPrinter {
	if !k.lines {
		p := newChunkPrinter(s)
		p.out, p.errs = out, c.ErrOrStderr()
		p.compare, p.totalOnly, p.asJSON = k.compare, k.totalOnly, k.asJSON
		p.header()
		return p
	}
	report := newLineReport(out, c.OutOrStdout(), false)
	report.asJSON, report.measures, report.threshold = k.asJSON, true, threshold
	report.total.words = s.Totals.Unknown != nil
	if report.top = k.choice.list(); k.totalOnly {
		report.top = &watch.Top{} // an empty list: no line is printed
	}
	return &linePrinter{report}
}

// feed sends a text to a session and returns how often the fast weights diverged. With LearnFalse,
// the session scores the text and stays unchanged.
func feed(
	ctx context.Context, cl *client.Client, s client.Session, in io.Reader, o client.ScoreOptions,
	event func(client.Event) error,
) (diverged int64, err error) {
	if o.Learn != client.LearnFalse {
		_, err := cl.Feed(ctx, s.ID, in, client.FeedOptions{
			Score: o, Event: event, Diverged: func(n int64) { diverged += n },
		})
		return diverged, err
	}
	for e, err := range cl.Score(ctx, s.ID, in, o) {
		switch {
		case err != nil:
		case e.Summary != nil:
			diverged += orZero(e.Summary.Divergences)
		default:
			err = event(e)
		}
		if err != nil {
			return diverged, err
		}
	}
	return diverged, nil
}
