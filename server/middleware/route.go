package middleware

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// Places says which server a request is for, by its address; "" is this server.
type Places interface {
	// Session is of a session, by its id or the name that an owner has given; found says whether
	// there is one.
	Session(ctx context.Context, owner, text string) (addr string, found bool, err error)
	// Alive reports whether the server of an address is known to be there.
	Alive(addr string) bool
	// Fresh is of a session that is to be made; equal keys have equal places.
	Fresh(key string) (addr string)
}

// headerProxied is the header of a request that another server has passed on: it is passed on no
// further. Its value is of no meaning, and a client that sends it has its request answered here, or
// is told that it cannot be.
const headerProxied = "Lmserve-Proxied"

const (
	dialMax = 2 * time.Second // to connect to another server
	// between two looks whether a server that has a request is there
	aliveLook     = time.Second
	idleConnsMost = 256 // to one server, that are kept
)

// Route passes requests for sessions of other servers on to these, once, as they come and as the
// answers come. It stands behind Authenticate, which knows whose name a name is, and before Meter:
// a request is metered where it is answered. With nil places every request is for this server.
func Route(
	places Places, c *contract.Contract, routes chi.Routes, memory *Memory, told func(),
	draining context.Context, problems *answer.Problems,
) func(http.Handler) http.Handler {
	if places == nil {
		return func(next http.Handler) http.Handler { return next }
	}
	p := &passing{
		places: places, routes: routes, memory: memory, told: told, draining: draining,
		problems: problems, transport: newTransport(),
	}
	context.AfterFunc(draining, p.transport.CloseIdleConnections)
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		route, _ := c.Find(routes, r)
		addr, err := p.place(r, route)
		switch {
		case err != nil:
			answer.RecorderOf(w).Route = route
			problems.Answer(w, r, err)
		case addr != "":
			answer.RecorderOf(w).Route = route
			p.pass(w, r, route, addr)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// newTransport connects to other servers. Each answer is passed on as it is.
func newTransport() *http.Transport {
	dialer := net.Dialer{
		Timeout: dialMax,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
		},
	}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialMax, DisableCompression: true,
		MaxIdleConnsPerHost: idleConnsMost, IdleConnTimeout: limits.ConnIdleMax / 2,
	}
}

type passing struct {
	places    Places
	routes    chi.Routes
	memory    *Memory
	told      func()
	draining  context.Context
	problems  *answer.Problems
	transport *http.Transport
}

// The routes of the contract that are for a certain server, beside those of sessions.
const (
	routeSessions    = "/v1/sessions"
	routeImport      = "/v1/sessions/import"
	routeSession     = "/v1/sessions/{id}"
	routeEvents      = "/v1/sessions/{id}/events"
	routeCompletions = "/v1/completions"
)

// place says where a request goes; "" is here. The error is a problem.
func (p *passing) place(r *http.Request, route string) (addr string, err error) {
	if r.Header.Get(headerProxied) != "" {
		return "", nil
	}
	who, _ := r.Context().Value(callerKey{}).(caller)
	var text string
	switch {
	case r.Method == http.MethodPost && (route == routeSessions || route == routeImport):
		return p.places.Fresh(answer.RequestID(r.Context())), nil
	case route == routeSession || strings.HasPrefix(route, routeSession+"/"):
		found := chi.NewRouteContext()
		p.routes.Find(found, contract.GetForHead(r.Method), r.URL.Path)
		text = found.URLParam("id")
	case route == routeCompletions:
		if text = r.Header.Get("X-Session-ID"); text == "" {
			if text, err = p.userOf(r); err != nil {
				return "", err
			}
		}
	}
	if text == "" {
		return "", nil
	}
	stop := Attend(r.Context())
	addr, there, err := p.places.Session(r.Context(), who.Key, text)
	stop()
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", session.ErrUnavailable, err)
	case !there && r.Method == http.MethodPut:
		return p.places.Fresh(who.Key + "/" + text), nil
	}
	return addr, nil
}

// userOf is the user that a completion in OpenAI's form names, which may be a session; "" if there
// is none. The body is read for it, and can be read again.
func (p *passing) userOf(r *http.Request) (user string, err error) {
	if !contract.HasBody(r) {
		return "", nil
	}
	in, err := takeIn(http.MaxBytesReader(nil, r.Body, limits.JSONBodyBytesMax))
	if err != nil {
		return "", err
	}
	context.AfterFunc(r.Context(), func() { _ = in.Close() })
	taken, err := p.memory.Take(r.Context(), limits.JSONReadFactor*in.bytes)
	if err != nil {
		return "", err
	}
	defer taken.Keep(0)
	var named struct {
		User string `json:"user"`
	}
	// what is wrong with it is told by whoever reads it
	_ = json.NewDecoder(in.Reader).Decode(&named)
	if err := in.again(); err != nil {
		return "", err
	}
	r.Body, r.ContentLength = in, in.bytes
	return named.User, nil
}

// pass passes a request on. While this server drains, what others tell of a session ends, so that
// its reader comes back to another server.
func (p *passing) pass(w http.ResponseWriter, r *http.Request, route, addr string) {
	to, err := url.Parse(addr)
	if err != nil {
		p.problems.Answer(w, r, fmt.Errorf("server: the address of another server: %w", err))
		return
	}
	p.told()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if route == routeEvents {
		defer context.AfterFunc(p.draining, func() { cancel(session.ErrDraining) })()
	}
	go p.attend(ctx, addr, cancel)
	proxy := httputil.ReverseProxy{
		Transport:     p.transport,
		FlushInterval: -1, // at once
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(to)
			out.Out.Host = to.Host
			// by this server, as the Host was
			for _, seen := range []string{"Origin", "Sec-Fetch-Site"} {
				out.Out.Header.Del(seen)
			}
			out.Out.Header.Set(headerProxied, "1")
			out.Out.Header.Set(answer.HeaderRequestID, answer.RequestID(r.Context()))
			out.Out.Header.Del("Expect") // this server has said that it takes the body
		},
		ModifyResponse: func(in *http.Response) error {
			for name := range w.Header() { // what this server says of every answer
				in.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			p.fail(w, r, cmp.Or(context.Cause(ctx), err))
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// errLost ends a request whose server is gone, and whose connection need not tell so: the server
// may be stopped, or cut off.
var errLost = errors.New("server: the lease of the server that has the session is over")

// attend ends a request when the server that it was passed to is gone.
func (p *passing) attend(ctx context.Context, addr string, end context.CancelCauseFunc) {
	looks := time.NewTicker(aliveLook)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		if !p.places.Alive(addr) {
			end(errLost)
			return
		}
	}
}

// fail ends a request that could not be passed on to its end. Unless nothing of the request was
// sent, or it only asks, the connection is cut, as it is when a server dies that has the request
// itself: a problem would say that nothing was done, which nobody knows.
func (p *passing) fail(w http.ResponseWriter, r *http.Request, err error) {
	var dialling *net.OpError
	unsent := errors.As(err, &dialling) && dialling.Op == "dial"
	if asks := contract.GetForHead(r.Method) == http.MethodGet; !unsent && !asks {
		panic(http.ErrAbortHandler)
	}
	told := problem.New(api.ProblemOverloaded, "The server that has the session cannot be "+
		"reached. If it "+
		"does not come back, another takes the session over.")
	told.RetryAfter, told.Cause = limits.RetryAfterBusy, err
	p.problems.Answer(w, r, told)
}
