package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
)

// newAdmin makes the HTTP server of the admin address. It gives operators metrics, profiles and
// health without API keys. Like any server without keys, it refuses requests from web pages of
// other sites.
func (s *Server) newAdmin() *http.Server {
	o := s.options
	r := chi.NewRouter()
	r.Use(
		middleware.RequestID,
		middleware.AccessLog(zap.NewNop()),
		middleware.Recover(o.Log, s.problems),
		middleware.Hosts(nil, o.AllowedHosts, nil, s.problems),
	)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		s.problems.Answer(w, r, problem.New(api.ProblemNotFound, ""))
	})
	r.Get("/metrics", s.writeMetrics)
	r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	r.HandleFunc("/debug/pprof/profile", pprof.Profile)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	r.HandleFunc("/debug/pprof/*", pprof.Index)
	all := http.NewServeMux()
	all.Handle("/", r)
	all.Handle("/healthz", s.router)
	all.Handle("/readyz", s.router)
	return &http.Server{
		Handler:           all,
		ReadHeaderTimeout: limits.HeaderTimeMax,
		IdleTimeout:       limits.ConnIdleMax,
		MaxHeaderBytes:    limits.HeaderBytesMax,
		ErrorLog:          zap.NewStdLog(o.Log),
	}
}

func (s *Server) writeMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", contract.MediaMetrics)
	w.Header().Set("Cache-Control", "no-store")
	s.options.Metrics.ServeHTTP(w, r)
}

// ServeAdmin answers requests to the admin address on the listener l. It returns nil after Drain
// has ended.
func (s *Server) ServeAdmin(l net.Listener) error {
	if err := s.admin.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("server: %s: %w", l.Addr(), err)
	}
	return nil
}
