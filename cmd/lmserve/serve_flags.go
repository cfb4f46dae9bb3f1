package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/watch"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
)

type serveFlags struct {
	model          modelFlags // how models compute
	models         []string   // names or files; empty: the default
	data           dataFlags
	cluster        clusterFlags
	listen         string
	admin          string
	tlsCert        string
	tlsKey         string
	insecure       bool
	openToAll      bool
	allowHosts     []string
	corsOrigins    []string
	logFormat      string
	maxSessions    int
	maxConnections int
	budget         byteSize
	diskBudget     byteSize
	replayMax      time.Duration
	forkSnapshots  int
	drain          time.Duration
	limits         limitFlags
	scrub          bool
	userSessions   bool
	alerts         alertFlags
	alertThreshold string
	logs           logFlags
}

func (f *serveFlags) register(c *cobra.Command) {
	f.model.registerComputing(c)
	f.data.register(c)
	f.limits.register(c)
	flags := c.Flags()
	f.data.network.register(flags)
	f.cluster.register(flags)
	f.alerts.register(flags)
	flags.StringVar(&f.alertThreshold, "alert-threshold", watch.RateDefault,
		"alert of incidents with a line that is stranger than all but so many ordinary ones,\n"+
			"as a fraction, 1/1000, or a probability, 0.001; those with a change always are")
	flags.StringArrayVar(&f.models, "model", nil,
		"name ('lmserve models' lists them) or file of a model that sessions may run on; may be "+
			"repeated, the first is that of\nsessions that ask for none, the others are in memory "+
			"while sessions there need them\n(default: the default one)")
	flags.StringVar(&f.tlsCert, "tls-cert", "",
		"file of the certificate chain (PEM), to serve HTTPS; it is read again when it changes")
	flags.StringVar(&f.tlsKey, "tls-key", "", "file of the certificate's private key (PEM)")
	flags.BoolVar(&f.insecure, "insecure", false,
		"allow listening on addresses that other machines can reach without keys, or without TLS")
	flags.BoolVar(&f.openToAll, "open-to-anyone", false,
		"serve a folder whose sessions belong to keys although there is no keys file")
	flags.StringSliceVar(&f.allowHosts, "allow-host", nil,
		"name or address that requests may have as their Host or Origin, besides loopback names; "+
			"may be repeated.\nIt makes a server with keys look at these headers, too")
	flags.StringSliceVar(&f.corsOrigins, "cors-origin", nil,
		"origin of web pages that may use the server from browsers, as https://app.example.org; "+
			"may be repeated.\nWithout it no page of another origin may")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080",
		"address and port to listen on; port 0 takes a free one")
	flags.StringVar(&f.admin, "admin", "",
		"address and port of the admin's metrics (/metrics), profiles (/debug/pprof) and health, "+
			"without keys; port 0 takes a free one\n(default: none; /metrics is beside the API, too)")
	flags.StringVar(&f.logFormat, "log-format", "console",
		"form of the log on standard error: console, json or none")
	flags.IntVar(&f.maxSessions, "max-sessions", session.SessionsDefault, "most live sessions")
	flags.IntVar(&f.maxConnections, "max-connections", 0,
		"most connections at the same time; a new one takes the place of one without a request, "+
			"or waits\n(default: what half of the process's descriptors allow)")
	flags.Var(&f.budget, "memory-budget",
		"memory for the states of sessions in use, as 800M or 4G; the states used longest ago go "+
			"to disk to make room\n(default: a quarter of the machine's memory). What the process "+
			"takes beside it is said above")
	flags.Var(&f.diskBudget, "disk-budget",
		"most that the data folder may take of the disk, as 800M or 20G; before that, nothing is "+
			"done any more that needs more\n(default: what the disk has)")
	flags.DurationVar(&f.replayMax, "max-replay", session.ReplayMaxDefault,
		"most computing that a restart may have to repeat for a session; it sets how often a "+
			"session's state goes to disk")
	flags.IntVar(&f.forkSnapshots, "fork-snapshots", 0,
		"most snapshots of a session that are kept beside the last two, so that a fork far back is "+
			"soon ready.\nUntil there are as many, a state goes to disk every 4s of computing. "+
			"docs/operations.md (Forks) has what they cost")
	flags.DurationVar(&f.drain, "drain-timeout", 30*time.Second,
		"longest time that finishing the requests under way may take when the server ends")
	flags.BoolVar(&f.scrub, "scrub", true,
		"look through the data folder for damage, slowly and again and again, while serving")
	flags.BoolVar(&f.userSessions, "user-sessions", false,
		"make a session for each user that requests to /v1/completions name, on first use, and "+
			"continue it from then on")
	f.logs.register(c)
	renamed(c, map[string]string{
		"keys": "keys-file", "log": "log-format", "replay-max": "max-replay",
	})
}

// limitFlags are limits of the contract that a server may lower.
type limitFlags struct {
	scoreBody            byteSize
	bodyIdle, answerIdle time.Duration
	drainDelay           time.Duration
}

// drainDelayMax is the largest drain delay.
const drainDelayMax = time.Hour

func (f *limitFlags) register(c *cobra.Command) {
	f.scoreBody = limits.ScoreBodyBytesMax
	flags := c.Flags()
	flags.Var(&f.scoreBody, "max-score-body",
		"most bytes of a text that one request has scored, as 64M (score_body_bytes_max)")
	flags.DurationVar(&f.bodyIdle, "max-body-idle", limits.BodyIdleMax,
		"longest time without a byte of a request's body (body_idle_seconds_max)")
	flags.DurationVar(&f.answerIdle, "max-answer-idle", limits.AnswerIdleMax,
		"longest time without a byte taken of an answer (answer_idle_seconds_max)")
	flags.DurationVar(&f.drainDelay, "drain-delay", 0,
		"time between /readyz answering 503 and the end of new work, so that load balancers notice")
}

// check compares the limits with the contract's.
func (f *limitFlags) check() error {
	if f.scoreBody > limits.ScoreBodyBytesMax {
		return usagef("--max-score-body is %s, expected at most %s", &f.scoreBody,
			sizeOf(limits.ScoreBodyBytesMax))
	}
	for _, d := range []struct {
		flag             string
		found, from, max time.Duration
	}{
		{"max-body-idle", f.bodyIdle, time.Millisecond, limits.BodyIdleMax},
		{"max-answer-idle", f.answerIdle, time.Millisecond, limits.AnswerIdleMax},
		{"drain-delay", f.drainDelay, 0, drainDelayMax},
	} {
		if d.found < d.from || d.found > d.max {
			return usagef("--%s is %v, expected %v to %v", d.flag, d.found, d.from, d.max)
		}
	}
	return nil
}

// checkStore refuses flags that contradict each other about the place of the sessions.
func (f *serveFlags) checkStore() error {
	n := &f.data.network
	switch {
	case !n.given():
		return cmp.Or(n.check(), f.cluster.check(false, f.userSessions))
	case f.data.dir == noDataDir:
		return usagef("--data-dir is %s and --store is given, expected one of them; with "+
			"--store, give the keys file with --keys-file", noDataDir)
	case f.diskBudget > 0:
		return usagef("--disk-budget is %s and --store is given, expected one of them: only a "+
			"data folder has a budget", &f.diskBudget)
	}
	return cmp.Or(n.check(), f.cluster.check(true, f.userSessions))
}

// checkOrigins checks the form of page origins.
func (f *serveFlags) checkOrigins() error {
	for _, text := range f.corsOrigins {
		if _, err := middleware.Origin(text); err != nil {
			return usagef("--cors-origin: %w", err)
		}
	}
	return nil
}

// openKeys opens the keys file or the copy of the database's keys, if there is a place for one. A
// file named on the command line must exist: a misspelled name must not leave the server open to
// everyone.
func (f *serveFlags) openKeys(ctx context.Context, log *zap.Logger) (*keys.Ring, error) {
	path, err := f.copyKeys(ctx, log)
	if err == nil && path == "" {
		path, err = f.data.path()
	}
	if err != nil || path == "" {
		return nil, err
	}
	if f.data.keysFile != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--keys-file: %w (make it with 'lmserve keys add NAME "+
				"--keys-file %s')", err, path)
		}
	}
	ring, err := keys.OpenRing(path, reportReload(log, "keys"))
	if err == nil && !ring.Required() {
		log.Info("no keys file; requests need no key", zap.String("file", path))
	}
	return ring, err
}
