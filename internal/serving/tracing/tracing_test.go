package tracing

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lmserve/lmserve/internal/serving/session"
)

func TestTracesAreMadeOnlyIfTheVariablesAskForThem(t *testing.T) {
	type env map[string]string
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env   env
		want  bool
		wrong string
	}{
		{env{}, false, ""},
		{env{"OTEL_SERVICE_NAME": "x"}, false, ""},
		{env{endpoint: "http://localhost:4318"}, true, ""},
		{env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, true, ""},
		{env{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{env{"OTEL_TRACES_EXPORTER": "none", endpoint: "http://localhost:4318"}, false, ""},
		{env{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		{env{"OTEL_SDK_DISABLED": "True", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		{env{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `OTEL_TRACES_EXPORTER is "zipkin"`},
		{env{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false,
			`OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`},
		{env{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true,
			""},
	} {
		got, err := asked(func(name string) string { return c.env[name] })
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.env)
	}
}

func TestNoTracerDoesNothing(t *testing.T) {
	var none *Tracer
	none.Phase(context.Background(), session.PhaseForward, time.Now(), time.Now())
	none.RequestEnded(context.Background(), "/", "GET")
	require.NoError(t, none.Close(context.Background()))
}

type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []*spans.ResourceSpans
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		var sent collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &sent) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, sent.ResourceSpans...)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) spans() map[string]*spans.Span {
	all := map[string]*spans.Span{}
	for _, resource := range r.got {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				all[s.Name] = s
			}
		}
	}
	return all
}

func attributes(of []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range of {
		all[kv.Key] = kv.Value.GetStringValue()
	}
	return all
}

// The request has the headers of a trace, so its spans must belong to that trace. No span may
// contain an API key.
func TestCollectorGetsSpansOfRequest(t *testing.T) {
	to := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	t.Setenv("OTEL_SERVICE_NAME", "scores-of-logs")
	tracer, err := FromEnvironment(context.Background(), "v1.2.3", func(err error) { t.Error(err) })
	require.NoError(t, err)
	began := time.Now()
	handler := tracer.Around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for p := range session.Phases {
			tracer.Phase(r.Context(), p, began, began.Add(time.Millisecond))
		}
		tracer.RequestEnded(r.Context(), "/v1/sessions/{id}/score", r.Method)
	}))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	r := httptest.NewRequest("POST", "/v1/sessions/7/score?offset=0", nil)
	r.Header.Set("traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	r.Header.Set("Authorization", "Bearer lms_secret")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/healthz", nil))
	require.NoError(t, tracer.Close(context.Background()))

	all := to.spans()
	root := all["POST /v1/sessions/{id}/score"]
	require.NotNil(t, root, "%v", slices.Collect(maps.Keys(all)))
	require.Len(t, all, 1+int(session.Phases), "a probe has no span")
	require.Equal(t, trace, hex.EncodeToString(root.TraceId))
	require.Equal(t, "/v1/sessions/{id}/score", attributes(root.Attributes)["http.route"])
	for _, name := range []string{"queue", "forward", "commit", "backward", "update", "remember"} {
		require.Equal(t, root.SpanId, all[name].ParentSpanId, name)
		require.EqualValues(t, time.Millisecond,
			all[name].EndTimeUnixNano-all[name].StartTimeUnixNano, name)
	}
	of := attributes(to.got[0].Resource.Attributes)
	require.Equal(t, "scores-of-logs", of["service.name"])
	require.Equal(t, "v1.2.3", of["service.version"])
	for _, s := range all {
		require.NotContains(t, s.String(), "lms_secret")
	}
}

func TestSamplerOfEnvironmentDecides(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	require.Empty(t, traced(t, 3))
}

func TestRequestOfManyChunksHasBoundedNumberOfSpans(t *testing.T) {
	all := traced(t, PhasesMax+7)
	require.Len(t, all, 1+PhasesMax)
	for _, kv := range all[len(all)-1].Attributes {
		if kv.Key == "lmserve.phases_left_out" {
			require.EqualValues(t, 7, kv.Value.AsInt64())
			return
		}
	}
	require.Fail(t, "the span of the request does not tell of phases that were left out")
}

func traced(t *testing.T, phases int) tracetest.SpanStubs {
	t.Helper()
	memory := tracetest.NewInMemoryExporter()
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8192")
	tracer, err := New(context.Background(), memory, "v1")
	require.NoError(t, err)
	tracer.Around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for range phases {
			tracer.Phase(r.Context(), session.PhaseForward, time.Now(), time.Now())
		}
		tracer.RequestEnded(r.Context(), "/x", "GET")
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
	require.NoError(t, tracer.provider.ForceFlush(context.Background()))
	all := memory.GetSpans()
	require.NoError(t, tracer.Close(context.Background()))
	return all
}
