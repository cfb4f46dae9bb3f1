package server

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/handler"
	"github.com/lmserve/lmserve/server/middleware"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// newRouter combines the middlewares, the generated router and the handlers. A request passes the
// middlewares in the listed order. The second list runs after the router has chosen the operation.
func newRouter(
	h *handler.Handlers, c *contract.Contract, o Options, draining context.Context,
) *chi.Mux {
	r := chi.NewRouter()
	problems := h.Problems
	r.Use(
		middleware.RequestID,
		middleware.AccessLog(o.Log),
		middleware.Observe(o.Metrics),
		middleware.OpenAI(c, r),
		middleware.OTLP,
		middleware.Stall(o.BodyIdleMax, draining),
		middleware.Recover(o.Log, problems),
		middleware.Hosts(o.Keys, o.AllowedHosts, o.CORSOrigins, problems),
		middleware.CORS(c, o.CORSOrigins),
		chimiddleware.GetHead,
		middleware.Authenticate(o.Keys, c, r, problems),
		middleware.Route(o.Places, c, r, h.Memory, o.Metrics.Proxied, draining, problems),
		middleware.Meter(draining, problems),
	)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		problems.Answer(w, r, problem.New(api.ProblemNotFound, contract.InsteadOf(r.URL.Path)))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Allow"] = allowedMethods(r)
		problems.Answer(w, r, problem.New(api.ProblemMethodNotAllowed, ""))
	})
	strict := routes.NewStrictHandlerWithOptions(h, nil, routes.StrictHTTPServerOptions{
		// A valid body may still fail to decode: encoding/json refuses the integer 1e2.
		RequestErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			problems.Answer(w, r, problem.OfJSON(err))
		},
		ResponseErrorHandlerFunc: problems.Answer,
	})
	routes.HandlerWithOptions(strict, routes.ChiServerOptions{
		BaseRouter: r,
		Middlewares: []routes.MiddlewareFunc{
			middleware.Negotiate(c, problems),
			middleware.BodyKind(c, problems),
			middleware.BodySize(c, o.ScoreBodyBytesMax, problems),
			middleware.Decompress(c, o.ScoreBodyBytesMax, h.Memory, problems),
			middleware.Records(c, h.Memory, problems),
			middleware.JSONBody(c, h.Memory, problems),
			middleware.Validate(c, problems),
		},
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			problems.Answer(w, r, c.Operation(r).ParameterProblem(r, err))
		},
	})
	return r
}

func allowedMethods(r *http.Request) (methods []string) {
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{
		http.MethodDelete, http.MethodGet, http.MethodHead,
		http.MethodPatch, http.MethodPost, http.MethodPut,
	} {
		if routes.Match(chi.NewRouteContext(), contract.GetForHead(method), r.URL.Path) {
			methods = append(methods, method)
		}
	}
	return methods
}
