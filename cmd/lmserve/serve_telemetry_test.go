package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// page asks for a page of a server, and gives the answer's status and body.
func page(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// What was scored is in the metrics of the server, which are beside the API and at the admin
// address.
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
	status, _ = send(t, http.MethodPost, url+path+"/score", "", `{"text":"`+strings.Repeat("a", 100)+`"}`)
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

// The variables of OpenTelemetry have a server send the spans of its requests, the phases among
// them; what they ask for and cannot be had is refused.
func TestServeSendsTracesIfTheVariablesAskForThem(t *testing.T) {
	names := make(chan string, 100)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if proto.Unmarshal(raw, &sent) != nil {
			return
		}
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					names <- span.Name
				}
			}
		}
	}))
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	file := randomModel(t)
	url, stop := serving(t, "--model", file)
	status, made := send(t, http.MethodPost, url+"/v1/sessions", "", "{}")
	require.Equal(t, http.StatusCreated, status)
	path := url + "/v1/sessions/" + made["id"].(string) + "/score"
	status, _ = send(t, http.MethodPost, path, "", `{"text":"`+strings.Repeat("a", 100)+`"}`)
	require.Equal(t, http.StatusOK, status)
	stop()
	close(names)
	found := map[string]bool{}
	for name := range names {
		found[name] = true
	}
	for _, name := range []string{"POST /v1/sessions/{id}/score", "queue", "forward", "commit"} {
		require.True(t, found[name], "%s is not in %v", name, found)
	}

	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	_, stderr, code := lmserve("", "serve", "--model", file, "--data-dir", "none")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `OTEL_TRACES_EXPORTER is "zipkin", expected otlp or none`)
}
