package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/handler"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/middleware"
)

// Sessions is the part of a session manager that the server uses: the handlers' methods, and Drain.
type Sessions interface {
	handler.Sessions
	Drain(ctx context.Context) error
}

var _ Sessions = (*session.Manager)(nil)

// Server serves a session manager over HTTP. Its life cycle is New, Serve, Drain.
type Server struct {
	sessions Sessions
	options  Options
	problems *answer.Problems
	router   *chi.Mux
	http     *http.Server
	admin    *http.Server

	ready     atomic.Bool
	drainOnce sync.Once
	drained   error
	endBodies context.CancelFunc
}

// New makes a server for sessions. It does not listen yet.
func New(sessions Sessions, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := contract.Load()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Server{
		sessions: sessions, options: o, problems: answer.NewProblems(o.Log, o.Metrics.Refused),
	}
	draining, endBodies := context.WithCancel(context.Background())
	s.endBodies = endBodies
	s.router = newRouter(&handler.Handlers{
		Sessions:  sessions,
		Keys:      o.Keys,
		TakesWork: s.ready.Load,
		Problems:  s.problems,
		Memory:    middleware.NewMemory(),
		Counted:   o.Metrics,
		Version:   o.Version,

		UserSessions: o.UserSessions,
		Logs:         o.Logs,
	}, c, o, draining)
	all := http.Handler(s.router)
	if o.Around != nil {
		all = o.Around(all)
	}
	s.http = &http.Server{
		Handler:           handling(all),
		ReadHeaderTimeout: limits.HeaderTimeMax,
		IdleTimeout:       limits.ConnIdleMax,
		MaxHeaderBytes:    limits.HeaderBytesMax,
		ConnContext:       withConn,
		ConnState:         noteState,
		ErrorLog:          zap.NewStdLog(o.Log),
	}
	s.admin = s.newAdmin()
	s.ready.Store(true)
	return s, nil
}

// Serve answers requests on connections of l until Drain is called; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	accepting := net.Listener(patientListener{l, s.options.AnswerIdleMax})
	if most := s.options.ConnectionsMax; most > 0 {
		accepting = newPlacesListener(accepting, most)
	}
	if s.options.TLS != nil {
		accepting = tls.NewListener(accepting, s.options.TLS)
	}
	if err := s.http.Serve(earlyListener{accepting, s.problems}); !errors.Is(err,
		http.ErrServerClosed) {
		return fmt.Errorf("server: %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain shuts the server down in order. It reports the server as not ready and waits for
// Options.DrainDelay. Then it stops reading request bodies, refuses new work, finishes chunks in
// progress, and closes listeners and connections. If ctx ends first, Drain cuts the connections.
// Later calls wait for the first call and return its result.
func (s *Server) Drain(ctx context.Context) error {
	s.drainOnce.Do(func() { s.drained = s.drain(ctx) })
	return s.drained
}

func (s *Server) drain(ctx context.Context) error {
	s.ready.Store(false)
	if s.options.DrainDelay > 0 {
		select {
		case <-time.After(s.options.DrainDelay):
		case <-ctx.Done():
		}
	}
	s.endBodies()
	errSessions := s.sessions.Drain(ctx)
	errHTTP := s.http.Shutdown(ctx)
	if errHTTP != nil {
		errHTTP = errors.Join(errHTTP, s.http.Close())
	}
	// Shutdown would wait for running profiles of the admin server.
	errHTTP = errors.Join(errHTTP, s.admin.Close())
	if err := errors.Join(errSessions, errHTTP); err != nil {
		return fmt.Errorf("server: draining: %w", err)
	}
	return nil
}
