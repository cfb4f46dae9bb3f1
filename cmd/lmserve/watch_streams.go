package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/follow"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type watchStream struct {
	name    string // name in the output; "-" means standard input
	session string // name of the session; "" if the session is unnamed
	log     follow.Log
	pattern bool
	whole   bool
	journal *follow.Journal // nil if the log is a file
}

func (k *watching) streams(args []string) (streams []watchStream, patterns []string, err error) {
	if k.journal {
		j := &follow.Journal{Args: args, All: k.fromStart}
		return []watchStream{{name: "journal", session: k.session, journal: j}}, nil, nil
	}
	if len(args) == 0 {
		args = []string{standardInput}
	}
	seen := map[string]bool{}
	var files []string
	for _, arg := range args {
		if seen[arg] {
			return nil, nil, usagef("%s is given twice, expected once", arg)
		}
		seen[arg] = true
		info, err := os.Stat(arg)
		if err == nil && info.IsDir() {
			return nil, nil, usagef("%s is a folder, expected a file", arg)
		}
		if err != nil && strings.ContainsAny(arg, "*?[") {
			path, err := filepath.Abs(arg)
			if _, wrong := filepath.Match(path, ""); wrong != nil || err != nil {
				return nil, nil, usagef("%q is not a valid pattern: "+
					"%w", arg, errors.Join(wrong, err))
			}
			patterns = append(patterns, path)
			continue
		}
		files = append(files, arg)
	}
	single := len(files) == 1 && len(patterns) == 0
	bases := map[string]int{}
	for _, file := range files {
		bases[sessionPart(file)]++
	}
	for _, file := range files {
		s := watchStream{name: file, session: k.session}
		if file != standardInput {
			if s.log.Path, err = filepath.Abs(file); err != nil {
				return nil, nil, err
			}
		}
		if k.session != "" && !single {
			s.session = sessionName(k.session, file, s.log, bases[sessionPart(file)] > 1)
		}
		streams = append(streams, s)
	}
	return streams, patterns, nil
}

// found returns the streams of the files that match a pattern. If later is true, each file is read
// from its beginning.
func (k *watching) found(pattern string, later bool) (streams []watchStream) {
	logs, _ := follow.Match(pattern) // watching.streams has already validated the pattern
	for _, log := range logs {
		s := watchStream{name: log.Path, log: log, pattern: true, whole: later}
		if k.session != "" {
			s.session = sessionName(k.session, log.Path, log, true)
		}
		streams = append(streams, s)
	}
	return streams
}

const (
	sessionMax     = 64 // maximum bytes of a session name
	sessionPartMax = 32 // maximum bytes of the part that comes from the file name
)

// sessionName returns the name of the session for one of several files: the flag's name and the
// file name. A hash of the path follows if the name would be too long or might not be unique.
func sessionName(session, file string, log follow.Log, hashed bool) string {
	part := sessionPart(file)
	name := session + "." + part
	whole := part == strings.ToLower(filepath.Base(file)) || file == standardInput
	if !hashed && whole && len(name) <= sessionMax {
		return name
	}
	hash := fmt.Sprintf("-%x", sha256.Sum256([]byte(log.Path)))[:9]
	room := max(0, min(sessionPartMax, sessionMax-len(session)-1-len(hash)))
	return session + "." + part[:min(len(part), room)] + hash
}

func sessionPart(file string) string {
	if file == standardInput {
		return "stdin"
	}
	return strings.Map(nameLetter, strings.ToLower(filepath.Base(file)))
}

func nameLetter(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		return r
	}
	return '-'
}

type watchAll struct {
	*watching
	w      *watch.Watcher
	stdin  io.Reader
	report *lineReport
	alerts *watchAlerts // nil if no receivers of alerts are configured

	mu       sync.Mutex
	sessions map[string]string // session ids, keyed by stream name
	// keyed by the path of the log or, without a path, by the stream's name
	running map[string]bool
	group   sync.WaitGroup
	last    error
	failed  int
}

const (
	matchEvery = time.Second
	// againAfter is the pause after an error in a file, if the file matches a pattern. Then watch
	// opens the file again.
	againAfter = 10 * time.Second
)

// run watches streams and patterns, until all streams have ended or the context ends. If one stream
// fails, the others continue.
func (a *watchAll) run(ctx context.Context, streams []watchStream, patterns []string) error {
	a.running = map[string]bool{}
	for _, s := range streams {
		a.start(ctx, s, len(patterns) == 0)
	}
	for later := false; ctx.Err() == nil && len(patterns) > 0; later = true {
		for _, pattern := range patterns {
			found := a.found(pattern, later)
			for _, s := range found {
				a.start(ctx, s, false)
			}
			if len(found) == 0 && !later {
				a.w.Note(fmt.Sprintf("no file matches %s yet; waiting", pattern))
			}
		}
		select {
		case <-time.After(matchEvery):
		case <-ctx.Done():
		}
	}
	a.group.Wait()
	if a.failed > 0 {
		return errors.Join(a.last, fmt.Errorf("%d streams ended early; see the messages above",
			a.failed))
	}
	return a.last
}

// start watches a stream in a new goroutine, unless the stream is already watched. With mayBeLast,
// run returns the error of the last running stream. Any other error is printed at once.
func (a *watchAll) start(ctx context.Context, s watchStream, mayBeLast bool) {
	key := cmp.Or(s.log.Path, s.name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[key] {
		return
	}
	a.running[key] = true
	a.group.Go(func() {
		err := unlessEnded(ctx, a.watch(ctx, s))
		if err != nil && s.pattern {
			a.w.Note(fmt.Sprintf("%s: %v; trying again", s.name, err))
			select {
			case <-time.After(againAfter):
			case <-ctx.Done():
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.running, key)
		switch {
		case err == nil || s.pattern:
		case mayBeLast && len(a.running) == 0:
			a.last = err
		default:
			a.failed++
			a.w.Note(fmt.Sprintf("%s: %v; the other streams continue", s.name, err))
		}
	})
}

func (a *watchAll) watch(ctx context.Context, s watchStream) error {
	session, done, err := a.open(ctx, a.w.Client, s.session)
	if err != nil {
		return flagError(err)
	}
	bare := session.Settings.Method == client.MethodCounts && !session.Settings.Companion
	if bare && a.w.Score.Learn == client.LearnUnflagged {
		return errors.Join(nothingUnflagged(), done())
	}
	name := s.name
	if name == standardInput {
		name = inputName
	}
	a.mu.Lock()
	a.sessions[name] = session.ID
	a.mu.Unlock()
	a.alerts.begin(name, session)
	err = a.watchIn(ctx, s, session)
	if err == nil && ctx.Err() == nil { // a log that has ended is not silent
		a.report.forgetSilence(name)
		a.alerts.heard(name)
	}
	return joinedUnlessEnded(err, done())
}

func (a *watchAll) watchIn(ctx context.Context, s watchStream, session client.Session) error {
	if s.name == standardInput {
		return a.w.Pipe(ctx, inputName, session, a.stdin)
	}
	info, err := os.Stat(s.name)
	if err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeDevice) != 0 && s.journal == nil {
		pipe, err := openFile(ctx, s.name)
		if err != nil {
			return err
		}
		defer pipe.Close()
		return a.w.Pipe(ctx, s.name, session, pipe)
	}
	in := watch.Stream{
		Name: s.name, Session: session, Journal: s.journal,
		Log: s.log, Last: int64(a.history), Ends: s.pattern,
	}
	if a.fromStart || s.whole {
		in.Last = -1
	}
	if a.session != "" && a.data.dir != noDataDir && a.w.Score.Learn != client.LearnFalse {
		dir, err := a.data.folder()
		if err != nil {
			return err
		}
		in.Position = filepath.Join(dir, "watch", session.ID+".json")
	}
	return a.w.Stream(ctx, in)
}
