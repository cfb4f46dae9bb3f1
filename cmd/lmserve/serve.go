package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/server"
)

func newServe() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions over HTTP",
		Long: strings.TrimSpace(`
Serve the API of api/openapi.yaml (also at /openapi.yaml). The first line on standard
output shows the address, the second the place of the sessions. Further lines list
additional models and models of words. The access log goes to standard error.

SIGTERM and SIGINT drain the server: it refuses new work, finishes chunks in progress,
and exits. The server ignores SIGHUP, and continues if the reader of its output exits.

By default, sessions are in the data folder, and bit-identical after a restart. With
--data-dir=none, sessions are in memory only. With --store and --objects, they are in a
PostgreSQL database and an object store (docs/cluster.md), for one server, or with
--advertise for several servers that share the sessions.

Damage to the data folder stops only the damaged sessions. While the disk refuses
writes, requests that need a write are refused, and confirmed data is kept.

If the data folder has a keys file (see 'lmserve keys'), every request needs a key.
Without keys, anyone who reaches the server has full access. The server then listens on
loopback addresses only, and accepts only requests with a loopback name, or one of
--allow-host, in their Host header. It refuses requests from web pages of other origins.
Other addresses require keys and TLS, unless --insecure is given.

` + memoryHelp),
		Example: `  lmserve serve
  lmserve serve --data-dir /var/lib/lmserve --memory-budget 4G --log-format json
  lmserve serve --listen :8443 --tls-cert cert.pem --tls-key key.pem
  lmserve serve --store postgres://lmserve@db/lmserve --objects s3://states
  lmserve serve --store postgres://lmserve@db/lmserve --objects s3://states \
    --listen 10.0.0.1:8080 --advertise https://10.0.0.1:8080 \
    --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, f) },
	}
	f.register(c)
	return c
}

func serve(c *cobra.Command, f serveFlags) error {
	// A server outlives its terminal and the reader of its log. SIGHUP need not reload anything:
	// changed keys and certificates are reloaded automatically.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	log, err := newLogger(f.logFormat)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // on some systems, Sync of standard error always fails
	// This check precedes the opening of the keys, because the store may contain the keys.
	if err := f.checkStore(); err != nil {
		return err
	}
	following, unfollow := context.WithCancel(c.Context())
	defer unfollow()
	ring, err := f.openKeys(following, log)
	if err != nil {
		return err
	}
	secure, err := tlsConfig(f.tlsCert, f.tlsKey, reportReload(log, "certificate"))
	if err != nil {
		return err
	}
	connections, err := f.connections()
	if err == nil {
		err = f.limits.check()
	}
	if err == nil {
		err = f.checkOrigins()
	}
	logs, errLogs := f.logs.sessions()
	err = cmp.Or(err, errLogs)
	if err != nil {
		return err
	}
	models, err := f.loadModels()
	if err == nil {
		err = f.checkBudget(models)
	}
	if err == nil {
		// This call follows checkBudget, because sessions of the added model need not fit the
		// budget.
		err = models.addCounts()
	}
	if err != nil {
		return err
	}
	limitMemory(f.memoryMost(models, connections), log)
	besideComputing(f.model.threads)
	told, err := newTelemetry(c.Context(), models.ids(), log)
	if err != nil {
		return err
	}
	defer told.close(log)
	if err := told.startAlerts(&f); err != nil {
		return err
	}
	defer told.closeAlerts()
	o, err := f.openSessions(c.Context(), models, told, log)
	if err != nil {
		return err
	}
	h := &host{opened: o, log: log}
	// An error of Close is ignored: it loses no text, because acknowledged text is already durable.
	defer func() { _ = h.store.Close() }()
	defer func() { h.among.leave() }()
	if err := f.checkOwners(o.sessions, ring, o.where); err != nil {
		return err
	}
	h.srv, err = server.New(o.sessions, server.Options{
		Log: log, Metrics: told, Around: told.around(), Keys: ring, TLS: secure,
		AllowedHosts: f.names(ring), CORSOrigins: f.corsOrigins,
		UserSessions: f.userSessions, Logs: logs, ConnectionsMax: connections,
		Version:           buildVersion(),
		DrainDelay:        f.limits.drainDelay,
		ScoreBodyBytesMax: int64(f.limits.scoreBody), BodyIdleMax: f.limits.bodyIdle,
		AnswerIdleMax: f.limits.answerIdle, Places: o.among.places(o.sessions),
	})
	if err != nil {
		return err
	}
	if f.insecure {
		log.Warn("--insecure: keys and TLS are not required on any address")
	}
	l, err := f.open(ring != nil && ring.Required(), secure)
	if err != nil {
		return err
	}
	if h.admin, err = f.openAdmin(); err != nil {
		return errors.Join(err, l.Close())
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	fmt.Fprintf(c.OutOrStdout(), "lmserve: serving %s on %s://%s\nlmserve: sessions in %s\n%s%s",
		models.first.ID(), scheme, l.Addr(), o.where, models.about(), h.aboutAdmin())
	return h.serve(c.Context(), l, f.limits.drainDelay+f.drain)
}

// open listens on the configured address. Unless --insecure is given, it refuses an address that
// other machines can reach without keys or without TLS.
func (f *serveFlags) open(keys bool, secure *tls.Config) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", f.listen)
	if err != nil {
		return nil, usagef("--listen %s: %w", f.listen, err)
	}
	if !addr.IP.IsLoopback() && !f.insecure {
		switch {
		case !keys:
			return nil, usagef("--listen %s can be reached from other machines, and no keys "+
				"exist: anybody could read and change every session; make a key with 'lmserve "+
				"keys add NAME', listen on 127.0.0.1, or give --insecure", f.listen)
		case secure == nil:
			return nil, usagef("--listen %s can be reached from other machines, and keys and "+
				"text would be sent unencrypted; give --tls-cert and --tls-key, listen on "+
				"127.0.0.1 behind a proxy with TLS, or give --insecure", f.listen)
		}
	}
	return listen(addr)
}

func listen(addr *net.TCPAddr) (net.Listener, error) {
	network := "tcp"
	if addr.IP.To4() != nil { // with "tcp", Go would also listen on IPv6 for 0.0.0.0
		network = "tcp4"
	}
	l, err := net.ListenTCP(network, addr)
	if err != nil {
		return nil, err // literally nil: an interface with a nil *net.TCPListener is not nil
	}
	return l, nil
}

func newLogger(format string) (*zap.Logger, error) {
	var config zap.Config
	switch format {
	case "console":
		config = zap.NewDevelopmentConfig()
	case "json":
		config = zap.NewProductionConfig()
		config.Sampling = nil // an access log needs every request
	case "none":
		return zap.NewNop(), nil
	default:
		return nil, usagef("--log-format is %q, expected console, json or none", format)
	}
	config.OutputPaths, config.ErrorOutputPaths = []string{"stderr"}, []string{"stderr"}
	config.DisableCaller, config.DisableStacktrace = true, true
	return config.Build()
}
