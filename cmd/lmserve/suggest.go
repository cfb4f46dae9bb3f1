package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/session"
)

type suggesting struct {
	connectFlags
	stream streamFlags
	after  []string
	typed  string
	n      int
	unit   string
	least  float64
	within time.Duration
	asJSON bool
}

func newSuggest() *cobra.Command {
	var k suggesting
	c := &cobra.Command{
		Use:   "suggest [--after FILE] [--typed TEXT]",
		Short: "Suggest the next text to type, after adapting to some text",
		Long: `Print texts that may follow the typed text, each with its probability. The model
first adapts to files (--after), to a session (--session), or to both: the session then
reads the files first. suggest chooses the texts that together save the most keystrokes
on average. The model does not learn the typed text.`,
		Example: `  lmserve suggest --after notes.txt --typed 'The qu' --unit word
  lmserve suggest --after main.go --typed 'if err ' -n 1 --min-probability 0.6
  lmserve suggest --server http://127.0.0.1:8080 --session mine --typed 'Dear ' --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return k.run(c) },
	}
	k.connectFlags.register(c)
	k.stream.register(c)
	flags := c.Flags()
	flags.StringSliceVar(&k.after, "after", nil,
		"files that the model reads first, in this order; - is standard input")
	flags.StringVar(&k.typed, "typed", "", "text before the cursor, at most 1024 bytes")
	flags.IntVarP(&k.n, "candidates", "n", session.CandidatesDefault,
		fmt.Sprintf("maximum number of suggested texts (1 to %d)", session.OfferedMax))
	flags.StringVar(&k.unit, "unit", string(client.SuggestLine),
		"where suggestions end: word, word+ (a word after up to ten separators), line (within "+
			"the line), free (anywhere) or auto (free if that would have saved more keystrokes "+
			"recently, otherwise word+)")
	flags.Float64Var(&k.least, "min-probability", 0,
		"minimum probability of a suggested text (0 to 1)")
	flags.DurationVar(&k.within, "within", 0,
		"time limit; the best texts found so far are printed (default: none, a fixed number "+
			"of steps)")
	flags.BoolVar(&k.asJSON, "json", false, "output as the server's JSON answer")
	return c
}

func (k *suggesting) run(c *cobra.Command) error {
	if err := k.check(); err != nil {
		return err
	}
	opening, err := k.stream.request()
	if err != nil {
		return err
	}
	return k.withSession(c, opening, k.stream.seed, func(cl *client.Client,
		s client.Session) error {
		if err := k.stream.checkEffect(string(s.Settings.Method)); err != nil {
			return err
		}
		if err := feedFiles(c, cl, s, k.after); err != nil {
			return err
		}
		found, err := cl.Suggest(c.Context(), s.ID, k.request())
		if err != nil {
			return flagError(err)
		}
		out := c.OutOrStdout()
		if k.asJSON {
			return json.NewEncoder(out).Encode(found)
		}
		printSuggestions(out, found.Candidates)
		return nil
	})
}

// check checks the flags whose names differ from the fields of the request, or whose values JSON
// cannot represent.
func (k *suggesting) check() error {
	switch {
	case !utf8.ValidString(k.typed):
		return usagef("--typed is %q, expected UTF-8", k.typed)
	case k.n < 1 || k.n > session.OfferedMax:
		return usagef("--candidates is %d, expected 1 to %d", k.n, session.OfferedMax)
	case !(k.least >= 0 && k.least <= 1):
		return usagef("--min-probability is %v, expected 0 to 1", k.least)
	case k.within < 0 || k.within > session.SuggestWithinMax:
		return usagef("--within is %v, expected 0s to %v", k.within, session.SuggestWithinMax)
	}
	return nil
}

// request builds the request. A positive time below a millisecond is rounded up to one millisecond,
// because 0 means no limit.
func (k *suggesting) request() client.SuggestRequest {
	unit, within := client.SuggestRequestUnit(k.unit), int(k.within.Milliseconds())
	if k.within > 0 {
		within = max(1, within)
	}
	return client.SuggestRequest{
		Typed: &k.typed, N: &k.n, Unit: &unit, MinProbability: &k.least, WithinMs: &within,
	}
}

// printSuggestions prints each text in quotes, so that spaces at its ends are visible and control
// characters are escaped.
func printSuggestions(out io.Writer, all []client.SuggestedText) {
	for _, x := range all {
		fmt.Fprintf(out, "%.2f  %s\n", x.Probability, strconv.Quote(x.Text))
	}
}
