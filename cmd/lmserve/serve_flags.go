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
	model          modelFlags
	models         []string // names or files of models; empty means the default model
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
		"rarity of a line for an alert of its incident: 1/1000 (one line in 1,000 is as "+
			"strange) or 0.001;\n"+
			"incidents with a change are always alerted")
	flags.StringArrayVar(&f.models, "model", nil,
		"name (see 'lmserve models') or file of a model; may be repeated. A session uses the "+
			"first model unless its request names another;\nother models are in memory only "+
			"while sessions need them (default: the embedded default model)")
	flags.StringVar(&f.tlsCert, "tls-cert", "",
		"file of the certificate chain (PEM) for HTTPS; reloaded when it changes")
	flags.StringVar(&f.tlsKey, "tls-key", "", "file of the certificate's private key (PEM)")
	flags.BoolVar(&f.insecure, "insecure", false,
		"permission to listen on addresses that other machines can reach, without keys or "+
			"without TLS")
	flags.BoolVar(&f.openToAll, "open-to-anyone", false,
		"start without a keys file although stored sessions belong to keys; nobody can then use "+
			"these sessions, but anyone can create and use others")
	flags.StringSliceVar(&f.allowHosts, "allow-host", nil,
		"name or address accepted in the Host and Origin of requests, besides loopback "+
			"names; may be repeated.\n"+
			"A server with keys checks these headers only with this flag")
	flags.StringSliceVar(&f.corsOrigins, "cors-origin", nil,
		"origin of web pages that may use the API, such as https://app.example.org; may be "+
			"repeated (default: none)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080",
		"address and port of the API; port 0 takes a free port")
	flags.StringVar(&f.admin, "admin", "",
		"address and port for metrics (/metrics), profiles (/debug/pprof) and health without "+
			"keys; port 0 takes a free port\n"+
			"(default: none; the API also has /metrics)")
	flags.StringVar(&f.logFormat, "log-format", "console",
		"format of the log on standard error: console, json or none")
	flags.IntVar(&f.maxSessions, "max-sessions", session.SessionsDefault,
		"maximum number of live sessions")
	flags.IntVar(&f.maxConnections, "max-connections", 0,
		"maximum number of connections; at the maximum, a new connection replaces an idle one "+
			"or waits\n"+
			"(default: half of the process's file descriptors)")
	flags.Var(&f.budget, "memory-budget",
		"memory for the states of sessions, such as 800M or 4G; beyond it, the least "+
			"recently used states go to disk\n"+
			"(default: a quarter of the machine's memory). The text above lists what else needs "+
			"memory")
	flags.Var(&f.diskBudget, "disk-budget",
		"disk space for the data folder, such as 800M or 20G; near the limit, requests that "+
			"need space are refused\n"+
			"(default: unlimited)")
	flags.DurationVar(&f.replayMax, "max-replay", session.ReplayMaxDefault,
		"maximum computing time that a restart repeats for a session; less time means that "+
			"states are saved more often")
	flags.IntVar(&f.forkSnapshots, "fork-snapshots", 0,
		"maximum number of snapshots of a session besides the last two, for fast forks from "+
			"earlier text. Until a session has this number, its state is saved every 4s of "+
			"computing. docs/operations.md (Forks) lists the costs")
	flags.DurationVar(&f.drain, "drain-timeout", 30*time.Second,
		"maximum time to finish requests in progress when the server shuts down, after "+
			"--drain-delay")
	flags.BoolVar(&f.scrub, "scrub", true, "slow, repeated check of the data folder for damage")
	flags.BoolVar(&f.userSessions, "user-sessions", false,
		"creation of a lasting session for each value of the field \"user\" in requests to "+
			"/v1/completions")
	f.logs.register(c)
	renamed(c, map[string]string{
		"keys": "keys-file", "log": "log-format", "replay-max": "max-replay",
	})
}

type limitFlags struct {
	scoreBody            byteSize
	bodyIdle, answerIdle time.Duration
	drainDelay           time.Duration
}

const drainDelayMax = time.Hour

func (f *limitFlags) register(c *cobra.Command) {
	f.scoreBody = limits.ScoreBodyBytesMax
	flags := c.Flags()
	flags.Var(&f.scoreBody, "max-score-body",
		"maximum size of the text of one score request, such as 64M (score_body_bytes_max)")
	flags.DurationVar(&f.bodyIdle, "max-body-idle", limits.BodyIdleMax,
		"maximum wait for the next byte of a request's body (body_idle_seconds_max)")
	flags.DurationVar(&f.answerIdle, "max-answer-idle", limits.AnswerIdleMax,
		"maximum wait for a client to read more of an answer (answer_idle_seconds_max)")
	flags.DurationVar(&f.drainDelay, "drain-delay", 0,
		"time between the first 503 of /readyz and the refusal of new work, so that load "+
			"balancers notice the shutdown")
}

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

// checkStore checks the place of the sessions. A server with a database also uses a data folder,
// for its copy of the keys.
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

func (f *serveFlags) checkOrigins() error {
	for _, text := range f.corsOrigins {
		if _, err := middleware.Origin(text); err != nil {
			return usagef("--cors-origin: %w", err)
		}
	}
	return nil
}

// openKeys opens the keys file, or the local copy of the keys in the database. It returns nil if
// the server has neither. A file given with --keys-file must exist: otherwise a typing error in its
// name would open the server to everyone.
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
