package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
)

type noted struct {
	mu      sync.Mutex
	begun   int
	ended   []string
	refused []string
}

func (n *noted) RequestBegan() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun++
}

func (n *noted) RequestEnded(
	_ context.Context, route, method string, status int, _ time.Duration,
) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = append(n.ended, method+" "+route+" "+http.StatusText(status))
}

func (n *noted) Refused(problem string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = append(n.refused, problem)
}

func (n *noted) Proxied() {}

func (n *noted) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "# what was counted\n")
}

// told returns the recorded calls after all requests have ended. The client may receive an answer
// before the request ends.
func (n *noted) told(t *testing.T) (ended, refused []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.ended) == n.begun
	}, 10*time.Second, time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended, n.refused
}

func TestMetricsAreToldOfRoutesAndNeverOfPaths(t *testing.T) {
	told := &noted{}
	g := newRig(t, Options{Metrics: told})
	path := g.create("{}")
	g.text(path+"/score", "some text")
	g.do("GET", "/v1/sessions/secret-name", nil)
	g.do("GET", "/no/such/path", nil)
	g.do("PUT", "/healthz", nil)
	g.fake.fail = io.ErrUnexpectedEOF
	resp := g.text(path+"/score", strings.Repeat("x", 100), "Accept", "application/x-ndjson")
	events := readEvents(resp).all(t)
	require.Equal(t, "error", events[len(events)-1].Type)
	ended, refused := told.told(t)
	require.Equal(t, []string{
		"POST /v1/sessions Created",
		"POST /v1/sessions/{id}/score OK",
		"GET /v1/sessions/{id} Not Found",
		"GET  Not Found",
		"PUT  Method Not Allowed",
		"POST /v1/sessions/{id}/score OK",
	}, ended)
	require.Equal(t, []string{
		"session-not-found", "not-found", "method-not-allowed", "internal",
	}, refused, "a stream that ends with an error is refused, too")
}

func newNotedRig(t *testing.T) *rig {
	ring := newTestKeys(t, keys.Key{Name: "alice"}, keys.Key{Name: "ops", Admin: true})
	g := newRig(t, Options{Keys: ring.Ring, Metrics: &noted{}})
	g.key, g.admin = ring.token["alice"], ring.token["ops"]
	return g
}

func TestMetricsBesideTheAPIAreForAdmins(t *testing.T) {
	g := newNotedRig(t)
	requireProblem(t, g.do("GET", "/metrics", nil, "Authorization", "Bearer x"),
		api.ProblemUnauthorized)
	requireProblem(t, g.do("GET", "/metrics", nil), api.ProblemAdminOnly)
	g.key = g.admin
	resp := g.do("GET", "/metrics", nil, "Accept", // the header that Prometheus sends
		"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "# what was counted\n", string(body))
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", resp.Header.Get("Content-Type"))
}

// The admin address requires no key.
func TestAdminAddressServesWithoutKeys(t *testing.T) {
	g := newNotedRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- g.server.ServeAdmin(l) }()
	ask := func(path string, headers ...string) int {
		r, err := http.NewRequest("GET", "http://"+l.Addr().String()+path, nil)
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
		}
		resp, err := g.plain.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for path, want := range map[string]int{
		"/metrics": 200, "/healthz": 200, "/readyz": 200, "/debug/pprof/": 200,
		"/debug/pprof/heap": 200, "/debug/pprof/cmdline": 200, "/v1/sessions": 404, "/": 404,
	} {
		require.Equal(t, want, ask(path), path)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap"} {
		require.Equal(t, 421, ask(path, "Host", "other.example.org"), path)
		require.Equal(t, 403, ask(path, "Origin", "https://other.example.org"), path)
	}
	require.NoError(t, g.server.Drain(context.Background()))
	require.NoError(t, <-served)
}

func TestAroundSeesEveryRequest(t *testing.T) {
	paths := make(chan string, 1)
	g := newRig(t, Options{Around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			paths <- r.URL.Path
		})
	}})
	g.do("GET", "/no/such/path", nil)
	require.Equal(t, "/no/such/path", <-paths)
}
