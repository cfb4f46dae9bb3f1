package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/serving/session"
)

type completing struct {
	connectFlags
	stream   streamFlags
	sampling setting.Values
	prompt   string
	after    []string
	stops    []string
	logprobs int
	commit   string
	asJSON   bool
}

func newComplete() *cobra.Command {
	k := completing{sampling: setting.Values{}}
	c := &cobra.Command{
		Use:   "complete [--after FILE] [--prompt TEXT]",
		Short: "Continue a prompt, after adapting to some text",
		Long: `Sample text that continues a prompt. The model first adapts to files (--after), to a
session (--session), or to both: the session then reads the files first. The text is
printed while it is sampled. The same seed samples the same text again. A model of words
treats the last word of the prompt as complete, and continues with the next word.

With --json, the output is the server's answer: the text, the reason for its end, the
seed and, with --logprobs, log-probabilities. After Ctrl-C, finish_reason is
"interrupted".`,
		Example: `  lmserve complete --after access.log --prompt 'GET /' --stop ' '
  lmserve complete --server http://127.0.0.1:8080 --session mine --prompt Dear --json
  lmserve complete --prompt 'Once upon' --max-tokens 40 --temperature 0 --logprobs 3`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return k.run(c) },
	}
	k.connectFlags.register(c)
	k.stream.register(c)
	flags := c.Flags()
	flags.Lookup("seed").Usage = "seed of the sampling (default: a random seed, which is " +
		"printed), and of a new session's masks (default: 0)"
	for _, row := range session.SamplingTable {
		flags.Var(row.Flag(k.sampling), row.FlagName(), row.FlagUsage())
	}
	flags.StringVar(&k.prompt, "prompt", "", "text to continue")
	flags.StringSliceVar(&k.after, "after", nil,
		"files that the model reads before the prompt, in this order; - is standard input")
	flags.StringArrayVar(&k.stops, "stop", nil, fmt.Sprintf(
		"`text` that ends the completion and is not part of it; may be repeated (up to %d)",
		session.StopStringsMax))
	flags.IntVar(&k.logprobs, "logprobs", 0, fmt.Sprintf("number of likeliest tokens "+
		"printed beside each token, with natural log-probabilities "+
		"(0 to %d; default: the text alone)",
		session.CandidatesMax))
	flags.StringVar(&k.commit, "commit", session.CommitNone,
		"text that the session keeps: none, prompt, or all (prompt and completion)")
	flags.BoolVar(&k.asJSON, "json", false, "output as one JSON object")
	return c
}

func (k *completing) run(c *cobra.Command) error {
	r, err := k.request(c)
	if err != nil {
		return err
	}
	opening, err := k.stream.request()
	if err != nil {
		return err
	}
	do := func(cl *client.Client, s client.Session) error {
		if err := k.stream.checkEffect(string(s.Settings.Method)); err != nil {
			return err
		}
		if err := feedFiles(c, cl, s, k.after); err != nil {
			return err
		}
		p := completionPrinter{
			out: c.OutOrStdout(), prompt: k.prompt, seed: *r.Seed, asJSON: k.asJSON,
			logprobs: r.Logprobs != nil, words: s.Totals.Unknown != nil,
		}
		err := p.print(cl.CompleteStream(c.Context(), s.ID, r))
		if len(p.text) > 0 && !c.Flags().Changed("seed") && !k.asJSON {
			fmt.Fprintf(c.ErrOrStderr(), "lmserve: the seed was %d\n", p.seed)
		}
		return flagError(err)
	}
	return k.withSession(c, opening, k.stream.seed, do)
}

// request builds the request from the flags. It checks the flags as far as possible without a
// model.
func (k *completing) request(c *cobra.Command) (r client.CompletionRequest, err error) {
	checked := session.Sampling{}
	checked.MaxTokens, checked.Temperature, checked.TopP = session.CompletionTokensDefault, 1, 1
	if err := session.SamplingTable.Set(&checked, k.sampling); err != nil {
		return r, settingError(err)
	}
	text, err := json.Marshal(k.sampling)
	if err == nil {
		err = json.Unmarshal(text, &r) // the settings have the names of the request's JSON fields
	}
	if err != nil {
		return r, err
	}
	if utf8.ValidString(k.prompt) {
		r.Prompt = &k.prompt
	} else {
		r.PromptBase64 = []byte(k.prompt)
	}
	if len(k.stops) > 0 {
		r.Stop = client.StopAt(k.stops...)
	}
	// The seed is drawn here, not by the server, so that the command can print the seed even if a
	// signal ends the sampling.
	drawn := rand.Uint64N(session.SeedMax + 1)
	r.Seed = cmp.Or(given(c.Flags().Changed, "seed", &k.stream.seed), &drawn)
	if c.Flags().Changed("logprobs") {
		if k.logprobs < 0 || k.logprobs > session.CandidatesMax {
			return r, usagef("--logprobs is %d, expected 0 to %d", k.logprobs,
				session.CandidatesMax)
		}
		r.Logprobs, r.TopLogprobs = new(true), &k.logprobs
	}
	if c.Flags().Changed("commit") {
		r.Commit = new(client.Commit(k.commit))
	}
	return r, nil
}

// feedFiles feeds files to a session; "-" as the only name means standard input.
func feedFiles(
	c *cobra.Command, cl *client.Client, on client.Session, files []string,
) error {
	if len(files) == 0 {
		return nil
	}
	name := strings.Join(files, ", ")
	if len(files) == 1 && files[0] == "-" {
		files = nil
	}
	in, closeIn, err := openAll(c.Context(), files, c.InOrStdin())
	if err != nil {
		return err
	}
	defer closeIn()
	p := newProgress(c, "reading "+name)
	defer p.end()
	sum := newChunkPrinter(on)
	sum.totalOnly = true
	all := sizeOfAll(files)
	_, err = cl.Feed(c.Context(), on.ID, in, client.FeedOptions{Event: func(e client.Event) error {
		err := sum.event(e)
		p.set(sum.bytes(), all)
		return err
	}})
	if err != nil && c.Context().Err() != nil && sum.bytes() > 0 {
		return fmt.Errorf("%w, after %d bytes of the files had been read at a rate of %s",
			context.Cause(c.Context()), sum.bytes(), sum.rate())
	}
	return err
}
