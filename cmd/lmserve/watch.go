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

// The command watch first reads the last part of a file and then follows new lines. The part has
// watchHistory bytes, or networkHistory bytes with a neural network. watchHistory covers thousands
// of lines, which show the usual surges and silences. A network reads more slowly, so
// networkHistory covers only hundreds of lines.
const (
	watchHistory   = 512 << 10
	networkHistory = 32 << 10
)

const (
	standardInput = "-"
	inputName     = "standard input"
)

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
	trouble   string
	answers   bool
	alerts    alertFlags
	counts    bool // true without --model: only tables of counts rate the lines
}

func newWatch() *cobra.Command {
	k := watching{}
	c := &cobra.Command{
		Use:   "watch [FILE...|-|--journal [-- ARGUMENT...]]",
		Short: "Follow logs and print strange lines",
		Long: fmt.Sprintf(`Follow files like tail -F, or read standard input, and print each strange
line as soon as it is complete. The strangest word or value is marked, with the values
that are usual in its place. Strange lines that belong together form an incident: watch
prints the first line, and the number of lines when the incident ends. With --lines, each strange
line is printed. With --records, several lines that form a record, such as a stack
trace, count as one. A line is strange in comparison with the lines before, so the first
%d lines of a session are never printed.

No model is required: tables of the values in earlier lines rate each line. --model also
scores the text with a model; the ratings stay the same.

watch first reads the end of each file, for the session to learn (--history,
--from-start), then new lines. A file may be missing at first, may be rotated in any
way, and is retried while it cannot be read. Quoted patterns such as 'app-*.log' also
match files that appear later. Files whose names differ only in a date are one log.

With --session, watch continues where it stopped, even if the file was rotated and
compressed since; the session reads every line once. Several files have a session each,
named after SESSION and the file: SESSION.access.log.

--journal runs journalctl with the arguments after "--".

Each printed line has a rank: 1/2300 is the strangest of about 2,300 lines.
docs/watch.md explains the rank and its reliability. If scoring falls behind the stream,
watch reports the lag on standard error. Ctrl-C and SIGTERM
end watch with exit code 0.`, lines.WarmUp),
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
	flags.StringVar(&k.learn, "learn", string(client.LearnTrue),
		"lines that the session learns: true (all lines), false (none), or unflagged (lines "+
			"that are not printed,\n"+
			"so that the --model does not learn an attack; the tables that rate lines always "+
			"learn all lines)")
	flags.Var(&k.history, "history",
		"number of bytes to read from the end of each file at the start; only whole lines are "+
			"read\n(default: 512KiB, with --model 32KiB)")
	flags.BoolVar(&k.fromStart, "from-start", false,
		"start at the beginning of each file or of the journal")
	flags.BoolVar(&k.journal, "journal", false,
		"the journal of systemd; arguments after -- are those of journalctl")
	flags.StringVar(&k.field, "field", "",
		"field to read from each line of JSON, such as message or /http/path\n(default: the "+
			"whole line)")
	flags.BoolVar(&k.lines, "lines", false,
		"output of every strange line, instead of one line for each incident")
	k.records.register(c)
	registerTroubleWords(c, &k.trouble)
	k.alerts.register(flags)
	flags.BoolVar(&k.answers, "feedback", false,
		"feedback on incidents from standard input: after \"f 12\", incidents like #12 are "+
			"not printed again;\nafter \"m 12\", incidents like #12 are always printed; \"u "+
			"12\" removes the feedback")
	flags.BoolVar(&k.asJSON, "json", false, "output as JSON, one object for each line or incident")
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
			"session has not learned any lines")
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
		if k.session != "" { // an existing session may need one of these models
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
		w.Before, w.Waiting = report.before, report.heard
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

// nothingUnflagged returns the error for --learn unflagged in a session without a model. Only
// tables rate the lines of such a session, and the tables learn every line.
func nothingUnflagged() error {
	return usagef("--learn is unflagged without --model, expected true: the tables that rate " +
		"lines learn every line; otherwise a new kind of line would stay strange forever")
}

// checkAnswers returns an error for --feedback if watch prints no incidents. It also returns an
// error if watch reads a log from standard input, where the user's answers are expected.
func (k *watching) checkAnswers(streams []watchStream) error {
	switch {
	case !k.answers:
	case k.lines || k.records.on || k.choice.top > 0:
		return usagef("--feedback is given with --lines, --records or --top, expected none of " +
			"these: feedback is about incidents")
	case slices.ContainsFunc(streams, func(s watchStream) bool { return s.name == standardInput }):
		return usagef(
			"--feedback is given with - (standard input), but itself reads verdicts from " +
				"standard input: watch a file or --journal instead")
	}
	return nil
}

// open opens the named session or creates one. Without --model, an existing session keeps its
// model, and a new session has none: its lines are rated by their content.
func (k *watching) open(
	ctx context.Context, cl *client.Client, name string,
) (s client.Session, done func() error, err error) {
	asked := client.SessionRequest{}
	if !k.counts {
		return openSession(ctx, cl, name, k.of(asked), 0)
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
	return openSession(ctx, cl, name, k.of(asked), 0)
}
