package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/serving/metrics"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/tracing"
	"github.com/lmserve/lmserve/server"
	"github.com/lmserve/lmserve/server/problem"
)

// tracesPatience is how long a server that exits tries to send the last traces.
const tracesPatience = 5 * time.Second

// telemetry is what a server reports to operators: metrics, alerts, and traces if OpenTelemetry's
// environment variables request them.
type telemetry struct {
	*metrics.Metrics
	traces *tracing.Tracer // nil if no traces are sent
	alerts *serveAlerts    // nil without receivers of alerts
	log    *zap.Logger
}

var (
	_ session.Observer = (*telemetry)(nil)
	_ server.Metrics   = (*telemetry)(nil)
)

func newTelemetry(
	ctx context.Context, models []string, log *zap.Logger,
) (*telemetry, error) {
	traces, err := tracing.FromEnvironment(ctx, buildVersion(), func(err error) {
		log.Warn("traces", zap.Error(err))
	})
	if err != nil {
		return nil, usageError{err}
	}
	return &telemetry{metrics.New(metrics.Options{
		Version: buildVersion(), Models: models, Numerics: kernel.Arithmetic{}.Numerics(),
		Problems: problem.Names(),
	}), traces, nil, log}, nil
}

// around returns a wrapper for the server's HTTP handler, or nil if no wrapper is needed.
func (t *telemetry) around() func(http.Handler) http.Handler {
	if t.traces == nil {
		return nil
	}
	return t.traces.Around
}

func (t *telemetry) close(log *zap.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), tracesPatience)
	defer cancel()
	if err := t.traces.Close(ctx); err != nil {
		log.Warn("the last traces were not sent", zap.Error(err))
	}
}

func (t *telemetry) Phase(ctx context.Context, p session.Phase, began, ended time.Time) {
	t.Metrics.Phase(ctx, p, began, ended)
	t.traces.Phase(ctx, p, began, ended)
}

// Loaded implements session.Observer. It logs only successes, because the request that needed the
// model reports a failure.
func (t *telemetry) Loaded(model string, took time.Duration, err error) {
	t.Metrics.Loaded(model, took, err)
	if err == nil {
		t.log.Info("model loaded", zap.String("model", model), zap.Duration("took", took))
	}
}

func (t *telemetry) RequestEnded(
	ctx context.Context, route, method string, status int, took time.Duration,
) {
	t.Metrics.RequestEnded(ctx, route, method, status, took)
	t.traces.RequestEnded(ctx, route, method)
}

// openAdmin listens on the admin address, and refuses an address that is reachable from other
// machines. It returns nil if no address is given.
func (f *serveFlags) openAdmin() (net.Listener, error) {
	if f.admin == "" {
		return nil, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", f.admin)
	if err != nil {
		return nil, usagef("--admin %s: %w", f.admin, err)
	}
	if !addr.IP.IsLoopback() && !f.insecure {
		return nil, usagef("--admin %s can be reached from other machines without a key: anybody "+
			"could read metrics, and make and read profiles; listen on 127.0.0.1, or give "+
			"--insecure", f.admin)
	}
	return listen(addr)
}

func (h *host) aboutAdmin() string {
	if h.admin == nil {
		return ""
	}
	return fmt.Sprintf("lmserve: metrics and profiles on http://%s\n", h.admin.Addr())
}

// serveAll serves on the listener l and, if the server has one, on the admin listener. The caller
// either receives the first error from the channel failed or calls wait. The function `wait` joins
// the errors of all listeners. A drained listener has no error.
func (h *host) serveAll(l net.Listener) (wait func() error, failed <-chan error) {
	all := []func() error{func() error { return h.srv.Serve(l) }}
	if h.admin != nil {
		all = append(all, func() error { return h.srv.ServeAdmin(h.admin) })
	}
	ended := make(chan error, len(all))
	for _, serve := range all {
		go func() { ended <- serve() }()
	}
	return func() (err error) {
		for range all {
			err = errors.Join(err, <-ended)
		}
		return err
	}, ended
}
