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

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
)

// Places finds the server that has a session. The address "" means this server.
type Places interface {
	// Session finds the server of a session. The argument text is the session's id, or the name
	// that the owner gave the session. The result found reports whether the session exists.
	Session(ctx context.Context, owner, text string) (addr string, found bool, err error)
	// Alive reports whether the server at an address holds a valid lease.
	Alive(addr string) bool
	// Fresh chooses a server for a new session, of any model of this server. Equal keys give the
	// same server.
	Fresh(key string) (addr string)
}

// headerProxied marks a request that another server has forwarded, so that it is not forwarded
// again. Any value counts. A client may also send the header: this server then refuses sessions of
// other servers.
const headerProxied = "Lmserve-Proxied"

const (
	dialMax = 2 * time.Second
	// aliveLook is the interval between checks that the other server is alive.
	aliveLook     = time.Second
	idleConnsMost = 256
)

// Route forwards a request to the server that has the session, and streams the body and the answer.
// A request is forwarded at most once. Route runs after Authenticate, because a session name
// belongs to a key. It runs before Meter, because the other server meters the request. If places is
// nil, this server handles every request.
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
			if passed := r.Header.Get(headerProxied) != ""; !passed &&
				(route == RouteOTLP || route == RouteLoki) {
				r = r.WithContext(context.WithValue(r.Context(), peersKey{}, &peers{p, r.Header}))
			}
			next.ServeHTTP(w, r)
		}
	})
}

// newTransport returns the HTTP transport to other servers. It does not decompress answers.
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

// These routes need special treatment when requests are forwarded to another server.
const (
	routeSessions    = "/v1/sessions"
	routeImport      = "/v1/sessions/import"
	routeSession     = "/v1/sessions/{id}"
	routeEvents      = "/v1/sessions/{id}/events"
	routeCompletions = "/v1/completions"
)

// place returns the address of the server for a request, or "" for this server. The error is a
// problem.
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

// userOf returns the field `user` of a completion in OpenAI's form, or "". The user may be a
// session id. userOf reads the body and rewinds it for the next reader.
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
	// The handler reports invalid JSON.
	_ = json.NewDecoder(in.Reader).Decode(&named)
	if err := in.again(); err != nil {
		return "", err
	}
	r.Body, r.ContentLength = in, in.bytes
	return named.User, nil
}

// pass forwards a request to the server at addr. If this server drains, pass ends watches of
// session events, so that the client reconnects to another server.
func (p *passing) pass(w http.ResponseWriter, r *http.Request, route, addr string) {
	to, err := url.Parse(addr)
	if err != nil {
		p.problems.Answer(w, r, fmt.Errorf("server: invalid address of another server: %w", err))
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
		FlushInterval: -1, // flush after each write
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(to)
			// ReverseProxy has dropped malformed parameters. The other server must refuse them.
			out.Out.URL.RawQuery = out.In.URL.RawQuery
			out.Out.Host = to.Host
			// This server has checked these headers. The other server would refuse them, because
			// its host differs.
			for _, seen := range []string{"Origin", "Sec-Fetch-Site"} {
				out.Out.Header.Del(seen)
			}
			out.Out.Header.Set(headerProxied, "1")
			out.Out.Header.Set(answer.HeaderRequestID, answer.RequestID(r.Context()))
			out.Out.Header.Del("Expect") // this server has already accepted the body
		},
		ModifyResponse: func(in *http.Response) error {
			for name := range w.Header() { // this server sets these headers itself
				in.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			p.fail(w, r, cmp.Or(context.Cause(ctx), err))
		},
	}
	out := r.WithContext(ctx)
	out.Body = forwardedBody{r.Body}
	proxy.ServeHTTP(w, out)
}

// forwardedBody is the body of a forwarded request. Its errors are answer.ErrBody, which the
// errors of the other server are not.
type forwardedBody struct{ io.ReadCloser }

func (b forwardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", answer.ErrBody, err)
	}
	return n, err
}

// errLost ends a forwarded request if the lease of the other server has lapsed. The connection may
// show no error if that server has crashed or lost the network.
var errLost = errors.New("server: the lease of the server that holds the session has lapsed")

// attend cancels a forwarded request, by the function end, once the server at addr is no longer
// alive.
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

// fail handles an error of a forwarded request. It answers with a problem if nothing was sent, or
// if the request only reads data. Otherwise it closes the connection, because it is unknown whether
// the other server has done the work.
func (p *passing) fail(w http.ResponseWriter, r *http.Request, err error) {
	var dialling *net.OpError
	unsent := errors.As(err, &dialling) && dialling.Op == "dial"
	if asks := contract.GetForHead(r.Method) == http.MethodGet; !unsent && !asks {
		p.problems.Cut(w, r, err)
	}
	p.problems.Answer(w, r, unreachable(err))
}
