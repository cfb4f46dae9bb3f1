package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server"
)

type serveFlags struct {
	model       modelFlags
	listen      string
	logFormat   string
	maxSessions int
	maxMemoryMB int64
	drain       time.Duration
	drainDelay  time.Duration
}

func newServe() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions over HTTP",
		Long: `Serve the API of api/openapi.yaml (also at /openapi.yaml). The first line on standard
output says where it listens; the access log goes to standard error. SIGTERM and
SIGINT drain: no new work, chunks under way are finished, then it ends.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, f) },
	}
	f.model.register(c)
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address; port 0 takes a free one")
	c.Flags().StringVar(&f.logFormat, "log", "console", "access log: console, json or none")
	c.Flags().IntVar(&f.maxSessions, "max-sessions", 0, "most live sessions (0: the default)")
	c.Flags().Int64Var(&f.maxMemoryMB, "max-memory-mb", 0, "memory for the state of live sessions, MiB (0: the default)")
	c.Flags().DurationVar(&f.drain, "drain-timeout", 30*time.Second, "how long a drain may take")
	c.Flags().DurationVar(&f.drainDelay, "drain-delay", 0, "time between /readyz going 503 and the drain, for load balancers")
	return c
}

func serve(c *cobra.Command, f serveFlags) error {
	log, err := newLogger(f.logFormat)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // standard error cannot always be synced
	m, err := f.model.load()
	if err != nil {
		return err
	}
	sessions, err := session.NewManager(m, session.Options{Threads: f.model.threads, MaxSessions: f.maxSessions, MaxMemoryBytes: f.maxMemoryMB << 20})
	if err != nil {
		return err
	}
	srv, err := server.New(sessions, server.Options{Log: log, DrainDelay: f.drainDelay})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "lmserve: serving %s on http://%s\n", m.ID(), l.Addr())
	return serveUntilDone(c.Context(), srv, l, log, f.drain)
}

// serveUntilDone serves until the context ends, then drains.
func serveUntilDone(ctx context.Context, srv *server.Server, l net.Listener, log *zap.Logger, timeout time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	log.Info("draining", zap.Duration("timeout", timeout))
	drain, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return errors.Join(srv.Drain(drain), <-served)
}

func newLogger(format string) (*zap.Logger, error) {
	var config zap.Config
	switch format {
	case "console":
		config = zap.NewDevelopmentConfig()
	case "json":
		config = zap.NewProductionConfig()
		config.Sampling = nil // an access log with holes is no access log
	case "none":
		return zap.NewNop(), nil
	default:
		return nil, usageError{fmt.Errorf("--log is %q, expected console, json or none", format)}
	}
	config.OutputPaths, config.ErrorOutputPaths = []string{"stderr"}, []string{"stderr"}
	config.DisableCaller, config.DisableStacktrace = true, true
	return config.Build()
}
