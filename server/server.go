// Package server is lmserve over HTTP: routes, limits, streaming and errors, as api/openapi.yaml says. Handlers decode a request, call one
// method of the session manager, and encode what it says; there is no model code here.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/keys"
	"github.com/lmserve/lmserve/internal/session"
)

// Sessions is what the server needs of a session manager. Its errors are those of package session. All methods may be called at once.
type Sessions interface {
	Create(ctx context.Context, who session.Caller, r session.CreateRequest) (session.Info, error)
	Get(who session.Caller, id string) (session.Info, error)
	List(who session.Caller, after string, limit int) (page []session.Info, next string, err error)
	Delete(who session.Caller, id string) error
	Fork(ctx context.Context, who session.Caller, id string, r session.ForkRequest) (session.Info, error)
	Export(ctx context.Context, who session.Caller, id string, w io.Writer) error
	Import(ctx context.Context, who session.Caller, r io.Reader) (session.Info, error)
	Score(ctx context.Context, who session.Caller, id string, body io.Reader, o session.ScoreOptions, emit func(session.Chunk) error) (session.Summary, error)
	Complete(ctx context.Context, who session.Caller, id string, r session.CompleteRequest, emit func(session.Piece) error) (session.Completion, error)
	Model() session.ModelInfo
	Err() error // why what keeps the sessions has failed for good; nil if it has not
	Drain(ctx context.Context) error
}

var _ Sessions = (*session.Manager)(nil)

// Options of a Server. The zero value has the limits of the contract, asks for no keys and writes no log.
type Options struct {
	Keys              *keys.Ring    // nil: none are asked for
	Log               *zap.Logger   // nil: none
	ScoreBodyBytesMax int64         // 0: the constant of that name, which it cannot exceed
	BodyIdleMax       time.Duration // 0: the constant
	AnswerIdleMax     time.Duration // 0: the constant
	DrainDelay        time.Duration // between readiness going and work being refused, for load balancers to notice; 0: none
}

// Validate reports the first option that is out of range.
func (o Options) Validate() error {
	for _, limit := range []struct {
		name       string
		value, max int64
	}{
		{"ScoreBodyBytesMax", o.ScoreBodyBytesMax, ScoreBodyBytesMax},
		{"BodyIdleMax", int64(o.BodyIdleMax), int64(BodyIdleMax)},
		{"AnswerIdleMax", int64(o.AnswerIdleMax), int64(AnswerIdleMax)},
		{"DrainDelay", int64(o.DrainDelay), int64(time.Hour)},
	} {
		if limit.value < 0 || limit.value > limit.max {
			return fmt.Errorf("server: option %s: found %d, expected 0 to %d", limit.name, limit.value, limit.max)
		}
	}
	return nil
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ScoreBodyBytesMax == 0 {
		o.ScoreBodyBytesMax = ScoreBodyBytesMax
	}
	if o.BodyIdleMax == 0 {
		o.BodyIdleMax = BodyIdleMax
	}
	if o.AnswerIdleMax == 0 {
		o.AnswerIdleMax = AnswerIdleMax
	}
	return o
}

// Server answers HTTP for one session manager. Its life: New, Serve, Drain. It is an http.Handler too, for those who listen themselves.
type Server struct {
	sessions Sessions
	options  Options
	log      *zap.Logger
	contract *contract
	router   *chi.Mux
	meters   meters
	http     *http.Server

	ready     atomic.Bool
	drainOnce sync.Once
	drained   error
	draining  context.Context // done when streamed bodies are to end
	endBodies context.CancelFunc
}

// New makes a server for these sessions. It listens to nothing yet.
func New(sessions Sessions, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	contract, err := loadContract()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Server{sessions: sessions, options: o, log: o.Log, contract: contract, meters: meters{byKey: map[string]*meter{}}}
	s.draining, s.endBodies = context.WithCancel(context.Background())
	s.router = s.routes()
	s.http = &http.Server{
		Handler:           s.router,
		ReadHeaderTimeout: HeaderTimeMax,
		IdleTimeout:       ConnIdleMax,
		MaxHeaderBytes:    HeaderBytesMax,
		ErrorLog:          zap.NewStdLog(o.Log),
	}
	s.ready.Store(true)
	return s, nil
}

// routes puts the generated router and the middleware together, the outermost first.
func (s *Server) routes() *chi.Mux {
	r := chi.NewRouter()
	r.Use(requestID, s.accessLog, s.stallLimits, s.recoverPanics, middleware.GetHead, s.authenticate, s.meterKey)
	r.NotFound(s.routeNotFound)
	r.MethodNotAllowed(s.methodNotAllowed)
	strict := api.NewStrictHandlerWithOptions(&handlers{s}, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  s.respondDecodeError,
		ResponseErrorHandlerFunc: s.respondError,
	})
	api.HandlerWithOptions(strict, api.ChiServerOptions{
		BaseRouter:       r,
		Middlewares:      []api.MiddlewareFunc{s.negotiate, s.acceptBody, s.limitBody, s.validate},
		ErrorHandlerFunc: s.respondParameterError,
	})
	return r
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// Serve answers requests from l until Drain, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("server: %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain ends the server's life in order: readiness goes; after Options.DrainDelay bodies that are still coming in end, new work is refused
// and the chunks under way are finished; then listeners and connections close. When ctx is done before that, connections are cut. Later
// calls wait for the first and return what it did.
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
	if err := errors.Join(errSessions, errHTTP); err != nil {
		return fmt.Errorf("server: draining: %w", err)
	}
	return nil
}
