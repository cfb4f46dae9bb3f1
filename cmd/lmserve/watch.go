package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/follow"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

// watchHistory is how much of a file is read before what comes: some hundred lines.
const watchHistory = 32 << 10

const standardInput = "-"

// watching is what watch was asked for.
type watching struct {
	connectFlags
	choice    lineChoice
	learn     string
	history   byteSize
	fromStart bool
	asJSON    bool
	lines     bool
	counts    bool // no model was asked for
}

func newWatch() *cobra.Command {
	k := watching{history: watchHistory}
	c := &cobra.Command{
		Use:   "watch [FILE...|-]",
		Short: "Follow logs and print what is strange in them",
		Long: fmt.Sprintf(`Follow files as tail -F does, or read standard input, and print each line
that is strange for its stream as soon as it is complete, with its strangest word or value marked,
and what usually stands in that place. Strange lines that belong together are one incident: the
first is printed, and how many there were when no more come. What is strange is said by comparison
with the lines before, so the first %d lines of a session are never printed.

No model is needed: lines are rated by tables of what stood in the lines before. --model rates them
the same way, and scores the text with a model besides.

Of each file its end is read first, for the model to learn from (--history, or --from-start); then
what comes. With --session the watching goes on where it was, also if the file was rotated since:
every line is in the session once. Several files have a session each, named after SESSION and the
file: SESSION.access.log.

A line is printed with its rank: 1/2300 is the strangest of about 2,300 lines. How the rank is made,
and how far it can be trusted, is in docs/watch.md. If the reading does not keep up with the stream,
standard error says so. Ctrl-C ends the watching, with exit code 0.`, lines.WarmUp),
		Example: `  journalctl -f | lmserve watch
  lmserve watch /var/log/nginx/access.log /var/log/nginx/error.log --session web
  lmserve watch app.log --threshold 1/100 --learn unflagged --json | jq .text
  lmserve watch app.log --from-start --top 20`,
		RunE: func(c *cobra.Command, files []string) error { return k.run(c, files) },
	}
	k.connectFlags.register(c)
	k.choice.register(c, watch.RateDefault)
	renamed(c, map[string]string{"rate": "threshold"})
	flags := c.Flags()
	flags.StringVar(&k.learn, "learn", string(client.LearnTrue), "what the session learns from: "+
		"true: all lines; false: none, it stays as it is;\n"+
		"unflagged: those that are not printed, so that it does not learn an attack")
	flags.Var(&k.history, "history",
		"how much of the end of a file is read before what comes, in whole lines")
	flags.BoolVar(&k.fromStart, "from-start", false, "read files from their beginning")
	flags.BoolVar(&k.lines, "lines", false, "print every strange line, not one for an incident")
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
		return usagef("--learn is false, expected true or unflagged without a " +
			"--session that has learnt before")
	}
	if len(files) == 0 {
		files = []string{standardInput}
	}
	if err := checkFiles(files); err != nil {
		return err
	}
	names, err := sessionNames(k.session, files)
	if err != nil {
		return err
	}
	if k.counts = k.model.path == ""; k.counts {
		k.model.path = model.CountsName
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
	report := newLineReport(status.beside(c.OutOrStdout()), c.OutOrStdout(), len(files) > 1)
	report.asJSON, report.threshold, report.top = k.asJSON, threshold, k.choice.list()
	if !k.lines && report.top == nil {
		report.incidents, score.Incidents = &incidentReport{}, true
	}
	report.note = status.note
	w := &watch.Watcher{
		Client: cl, Score: score, Line: report.line, Behind: status.behind, Note: status.note,
	}
	err = k.watchAll(c.Context(), w, c.InOrStdin(), files, names)
	status.end()
	err = errors.Join(unlessEnded(c.Context(), err), report.end())
	fmt.Fprintf(c.ErrOrStderr(), "lmserve: %s\n", report.summary())
	return err
}

// watchAll watches all streams at once. The first error ends all.
func (k *watching) watchAll(
	ctx context.Context, w *watch.Watcher, stdin io.Reader, files, names []string,
) error {
	streams, ctx := errgroup.WithContext(ctx)
	for i, file := range files {
		streams.Go(func() (err error) {
			s, done, err := k.open(ctx, w.Client, names[i])
			if err != nil {
				return flagError(err)
			}
			defer func() { err = joinedUnlessEnded(err, done()) }()
			return k.watchOne(ctx, w, stdin, file, s)
		})
	}
	return streams.Wait()
}

// open opens the session of a name, or a new one. Without --model a session that exists has its
// own, and a new one needs none: lines are rated by what stands in them.
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

func (k *watching) watchOne(
	ctx context.Context, w *watch.Watcher, stdin io.Reader, file string, s client.Session,
) error {
	if file == standardInput {
		return w.Pipe(ctx, "standard input", s, stdin)
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		pipe, err := openFile(ctx, file)
		if err != nil {
			return err
		}
		defer pipe.Close()
		return w.Pipe(ctx, file, s, pipe)
	}
	in := watch.File{Name: file, Session: s, Follow: true}
	if in.Path, err = filepath.Abs(file); err != nil {
		return err
	}
	if k.session != "" && k.data.dir != noDataDir && w.Score.Learn != client.LearnFalse {
		dir, err := k.data.folder()
		if err != nil {
			return err
		}
		in.Position = filepath.Join(dir, "watch", s.ID+".json")
	}
	if !k.fromStart {
		in.From, err = follow.Begin(in.Path, int64(k.history))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return w.File(ctx, in)
}

// checkFiles refuses files that are not there, and folders, before anything is done.
func checkFiles(files []string) error {
	seen := map[string]bool{}
	for _, file := range files {
		if seen[file] {
			return usagef("%s is named twice, expected once", file)
		}
		if seen[file] = true; file == standardInput {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return usagef("%s is a folder, expected a file", file)
		}
	}
	return nil
}

// sessionNames are the names of the sessions of the files. One file has the session that was named;
// of several each has one of its own, since each has its own habits and its own place.
func sessionNames(session string, files []string) ([]string, error) {
	names := make([]string, len(files))
	if session == "" {
		return names, nil
	}
	if len(files) == 1 {
		return []string{session}, nil
	}
	of := map[string]string{}
	for i, file := range files {
		name := session + "." + strings.Map(nameLetter, strings.ToLower(filepath.Base(file)))
		if file == standardInput {
			name = session + ".stdin"
		}
		if other, taken := of[name]; taken {
			return nil, usagef("%s and %s would both have the session %s; watch them "+
				"in two processes, with a --session each", other, file, name)
		}
		names[i], of[name] = name, file
	}
	return names, nil
}

// nameLetter replaces what a session's name cannot have.
func nameLetter(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		return r
	}
	return '-'
}
