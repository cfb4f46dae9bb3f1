package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/follow"
	"github.com/lmserve/lmserve/internal/serving/watch"
	"github.com/lmserve/lmserve/weights"
)

// Bytes of a file read before new lines: thousands of lines as history for surges and silences, or
// hundreds if a network reads them.
const (
	watchHistory   = 512 << 10
	networkHistory = 32 << 10
)

const (
	standardInput = "-"
	inputName     = "standard input"
)

// watching holds the flags of watch.
type watching struct {
	connectFlags
	choice    lineChoice
	learn     string
	history   byteSize
	fromStart bool
	journal   bool
	field     string
	asJSON    bool
	lines     bool
	records   recordFlags
	trouble   string // file of trouble words
	answers   bool
	alerts    alertFlags
	counts    bool // no model was requested
}

func newWatch() *cobra.Command {
	k := watching{}
	c := &cobra.Command{
		Use:   "watch [FILE...|-|--journal [-- ARGUMENT...]]",
		Short: "Follow logs and print what is strange in them",
		Long: fmt.Sprintf(`Follow files as tail -F does, or read standard input, and print each line
that is strange for its stream as soon as it is complete, with its strangest word or value marked,
and what usually stands in that place. Strange lines that belong together are one incident: the
first is printed, and how many there were when no more come. With --lines each strange line is
printed, with --records a stack trace or another record of several lines as one. What is strange is
said by comparison with the lines before, so the first %d lines of a session are never printed.

No model is needed: lines are rated by tables of what stood in the lines before. --model rates them
the same way, and scores the text with a model besides.

Of each file its end is read first, for the model to learn from (--history, or --from-start); then
what comes. A file may be missing at first, may be rotated in any way, and is tried again while it
cannot be read. A pattern in quotes, as 'app-*.log', is followed, too: files that appear later are
taken in. Files whose names differ in a date alone are one log.

With --session the watching goes on where it was, also if the file was rotated and compressed since:
every line is in the session once. Several files have a session each, named after SESSION and the
file: SESSION.access.log.

--journal runs journalctl itself, with the arguments behind "--".

A line is printed with its rank: 1/2300 is the strangest of about 2,300 lines. How the rank is made,
and how far it can be trusted, is in docs/watch.md. If the reading does not keep up with the stream,
standard error says so. Ctrl-C and SIGTERM end the watching, with exit code 0.`, lines.WarmUp),
		Example: `  lmserve watch --session journal --journal -- -u nginx
  lmserve watch /var/log/nginx/access.log /var/log/nginx/error.log --session web
  lmserve watch '/var/log/containers/*.log' --field log --session node
  lmserve watch app.log --threshold 1/100 --json | jq .text
  lmserve watch app.log --from-start --top 20`,
		RunE: func(c *cobra.Command, files []string) error { return k.run(c, files) },
	}
	k.connectFlags.register(c)
	k.choice.register(c, watch.RateDefault)
	renamed(c, map[string]string{"rate": "threshold"})
	flags := c.Flags()
	flags.StringVar(&k.learn, "learn", string(client.LearnTrue), "what the session learns from: "+
		"true: all lines; false: none, it stays as it is;\n"+
		"unflagged: those that are not printed,\nso that a --model does not learn an attack; "+
		"the tables that rate lines take in all")
	flags.Var(&k.history, "history",
		"how much of the end of a file is read before what comes, in whole lines\n"+
			"(default: 512KiB, with --model 32KiB)")
	flags.BoolVar(&k.fromStart, "from-start", false,
		"read files, or the journal, from their beginning")
	flags.BoolVar(&k.journal, "journal", false,
		"read the journal of systemd; arguments behind -- are those of journalctl")
	flags.StringVar(&k.field, "field", "", "of lines in JSON read this value alone, "+
		"as message or /http/path\n(default: whole lines)")
	flags.BoolVar(&k.lines, "lines", false, "print every strange line, not one for an incident")
	k.records.register(c)
	registerTroubleWords(c, &k.trouble)
	k.alerts.register(flags)
	flags.BoolVar(&k.answers, "feedback", false, "read answers on incidents from standard input, "+
		"as \"f 12\": #12 was a\nfalse alarm, and incidents like it are not printed again; "+
		"m: they always are; u takes back")
	flags.BoolVar(&k.asJSON, "json", false, "print one object a line, in JSON")
	return c
}

func (k *watching) run(c *cobra.Command, files []string) (err error) {
	threshold, err := k.choice.check(c)
	if err != nil {
		return err
	}
	score := client.ScoreOptions{Lines: true, Learn: client.Learn(k.learn)}
	switch score.Learn {
	case client.LearnTrue, client.LearnFalse:
	case client.LearnUnflagged:
		score.Threshold = threshold
	default:
		return usagef("--learn is %q, expected %s, %s or %s", k.learn,
			client.LearnTrue, client.LearnFalse, client.LearnUnflagged)
	}
	if score.Learn == client.LearnFalse && k.session == "" {
		return usagef("--learn is false without --session, expected true or unflagged: a new " +
			"session has nothing learned")
	}
	if err := k.records.apply(&score); err != nil {
		return err
	}
	if score.TroubleWords, err = troubleWords(k.trouble); err != nil {
		return err
	}
	streams, patterns, err := k.streams(files)
	if err != nil {
		return err
	}
	if err := cmp.Or(k.checkAnswers(streams), k.checkAlerts()); err != nil {
		return err
	}
	k.counts = k.model.path == ""
	if !c.Flags().Changed("history") {
		if k.history = networkHistory; k.counts {
			k.history = watchHistory
		}
	}
	if k.counts {
		if score.Learn == client.LearnUnflagged && k.session == "" {
			return nothingUnflagged()
		}
		k.model.path = model.CountsName
		if k.session != "" { // the session may have a model
			k.besides = weights.EmbeddedNames()
		}
	}
	conn, err := k.connect(c)
	if err != nil {
		return unlessEnded(c.Context(), err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	cl, err := conn.client()
	if err != nil {
		return err
	}
	status := newLagStatus(c)
	report := newLineReport(status.beside(c.OutOrStdout()), c.OutOrStdout(),
		len(streams)+len(patterns) > 1 || len(patterns) > 0)
	report.asJSON, report.threshold, report.top = k.asJSON, threshold, k.choice.list()
	if !k.lines && !score.Records && report.top == nil {
		report.incidents, score.Incidents = &incidentReport{}, true
		score.Threshold = threshold
	}
	if score.Incidents || score.Records && score.Learn != client.LearnFalse {
		report.total.ends = map[string]lineEnd{}
	}
	report.note = status.note
	w := &watch.Watcher{
		Client: cl, Score: score, Line: report.line, Behind: status.behind, Note: status.note,
	}
	if report.incidents != nil {
		w.Before = report.before
	}
	if k.field != "" {
		w.Field = follow.ParseField(k.field)
	}
	alerts, endAlerts, err := k.startAlerts(w, report)
	if err != nil {
		return err
	}
	defer endAlerts()
	all := watchAll{
		watching: k, w: w, stdin: c.InOrStdin(), report: report, alerts: alerts,
		sessions: map[string]string{},
	}
	if k.answers {
		go all.feedback(c.Context(), c.InOrStdin())
	}
	if report.incidents != nil {
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		go all.silences(ctx)
	}
	err = all.run(c.Context(), streams, patterns)
	status.end()
	err = errors.Join(unlessEnded(c.Context(), err), report.end())
	fmt.Fprintf(c.ErrOrStderr(), "lmserve: %s\n", report.summary())
	return err
}

// nothingUnflagged refuses --learn unflagged for a session without a model, which has only its
// tables.
func nothingUnflagged() error {
	return usagef("--learn is unflagged without --model, expected true: the tables that rate " +
		"lines learn every line; otherwise a new kind of line would stay strange for ever")
}

// checkAnswers refuses --feedback if there is nothing to answer, or no way to answer.
func (k *watching) checkAnswers(streams []watchStream) error {
	switch {
	case !k.answers:
	case k.lines || k.records.on || k.choice.top > 0:
		return usagef("--feedback is given with --lines, --records or --top, expected none of " +
			"these: feedback is about incidents")
	case slices.ContainsFunc(streams, func(s watchStream) bool { return s.name == standardInput }):
		return usagef(
			"--feedback reads answers from standard input: watch a file or --journal instead")
	}
	return nil
}

// open opens the named session or a new one. Without --model an existing session keeps its model,
// and a new one needs none: lines are rated by their content.
func (k *watching) open(
	ctx context.Context, cl *client.Client, name string,
) (s client.Session, done func() error, err error) {
	asked := client.SessionRequest{Seed: new(uint64)}
	if !k.counts {
		return openSession(ctx, cl, name, k.of(asked))
	}
	if name != "" {
		s, err := cl.GetSession(ctx, name)
		if !client.Is(err, client.ProblemSessionNotFound) {
			return s, func() error { return nil }, err
		}
	}
	asked.Settings = &client.SettingsRequest{
		Method: new(client.MethodCounts), Companion: new(false),
	}
	return openSession(ctx, cl, name, k.of(asked))
}
