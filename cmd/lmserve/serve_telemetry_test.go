package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func page(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// The metrics count the scored text. The API and the admin address both serve them.
func TestServeCountsWhatItScores(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin := free.Addr().String()
	require.NoError(t, free.Close())
	url, stop := serving(t, "--model", randomModel(t), "--admin", admin)
	defer stop()
	status, made := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	path := "/v1/sessions/" + made["id"].(string)
	status, _ = send(t, http.MethodPost, url+path+"/score", "", `{"text":"`+strings.Repeat("a",
		100)+`"}`)
	require.Equal(t, http.StatusOK, status)
	admin = "http://" + admin
	for _, at := range []string{url, admin} {
		status, text := page(t, at+"/metrics")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, `lmserve_scored_bytes_total{baseline="no",learn="true"} 100`+"\n")
		require.Contains(t, text, `lmserve_sessions{state="hot"} 1`+"\n")
		require.Contains(t, text, `route="/v1/sessions/{id}/score"`)
		require.NotContains(t, text, made["id"])
	}
	status, _ = page(t, admin+"/readyz")
	require.Equal(t, http.StatusOK, status)
	status, _ = page(t, admin+"/v1/sessions")
	require.Equal(t, http.StatusNotFound, status)
}

func TestServeRefusesAnAdminAddressThatOthersCanReach(t *testing.T) {
	_, stderr, code := lmserve("", "serve", "--model", randomModel(t), "--log-format", "none",
		"--data-dir", "none", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--admin 0.0.0.0:0 can be reached from other machines")
}

type collected struct {
	mu    sync.Mutex
	spans []*trace.Span
}

func (c *collected) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if proto.Unmarshal(raw, &sent) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// named returns the first span with a given name. If the parameter below is not nil, named
// considers only the children of the span below.
func (c *collected) named(t *testing.T, name string, below *trace.Span) *trace.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.spans, func(s *trace.Span) bool {
		return s.Name == name && (below == nil || bytes.Equal(s.ParentSpanId, below.SpanId))
	})
	require.GreaterOrEqual(t, at, 0, "there is no span %s", name)
	return c.spans[at]
}

// If OpenTelemetry's environment variables are set, a server sends a span for each request, with
// child spans for the phases of work. Unsupported values of the variables are refused.
func TestServeSendsTracesIfTheVariablesAskForThem(t *testing.T) {
	sent := new(collected)
	to := httptest.NewServer(sent)
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	file := randomModel(t)
	url, stop := serving(t, "--model", file)
	status, made := send(t, http.MethodPost, url+"/v1/sessions", "",
		`{"settings":{"chunk":16,"method":"dynamic-sgd"}}`)
	require.Equal(t, http.StatusCreated, status)
	path := url + "/v1/sessions/" + made["id"].(string) + "/score"
	status, _ = send(t, http.MethodPost, path, "", `{"text":"`+strings.Repeat("a", 100)+`"}`)
	require.Equal(t, http.StatusOK, status)
	stop() // sends the remaining spans
	score := sent.named(t, "POST /v1/sessions/{id}/score", nil)
	before := score.StartTimeUnixNano
	for _, phase := range []string{"queue", "forward", "commit", "backward", "update", "remember"} {
		span := sent.named(t, phase, score)
		require.GreaterOrEqual(t, span.StartTimeUnixNano, before, "%s begins too soon", phase)
		require.LessOrEqual(t, span.EndTimeUnixNano, score.EndTimeUnixNano, phase)
		before = span.StartTimeUnixNano
	}

	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	_, stderr, code := lmserve("", "serve", "--model", file, "--data-dir", "none")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `OTEL_TRACES_EXPORTER is "zipkin", expected otlp or none`)
}
