package metrics

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

func tallied(t tokenizer.Tally, baseline *float64) session.Tally {
	return session.Tally{Tally: t, BaselineBits: baseline}
}

type source session.Stats

func (s source) Stats() session.Stats { return session.Stats(s) }

func used() *Metrics {
	m := New(Options{
		Version: "v1", Models: []string{"small-1", "words-2"}, Numerics: "float32",
		Problems: []string{"session-busy"},
	})
	bits, now := 40.0, time.Now()
	m.RequestBegan()
	m.RequestBegan()
	m.RequestEnded(context.Background(), "/v1/sessions/{id}", "GET", 200, time.Second)
	m.Refused("session-busy")
	for p := range session.Phases {
		m.Phase(context.Background(), p, now, now.Add(time.Millisecond))
	}
	m.Scored("small-1", session.LearnTrue,
		tallied(tokenizer.Tally{Bytes: 16, Tokens: 8, Bits: 24}, &bits))
	m.Scored("small-1", session.LearnFalse,
		tallied(tokenizer.Tally{Bytes: 2, Tokens: 1, Bits: 3}, nil))
	m.Line("counts", &session.Line{
		Unlearnt: true, Strangeness: lines.Strangeness{P: .001, Seen: lines.WarmUp},
	})
	m.Line("counts", &session.Line{Strangeness: lines.Strangeness{P: .001}})
	ref := session.SessionRef{ID: "s", Method: "counts"}
	for range 2 {
		m.Incident(ref, nil, &session.IncidentReport{Incident: session.Incident{Lines: 1}})
	}
	m.Incident(ref, nil, &session.IncidentReport{Incident: session.Incident{Lines: 3}})
	m.Incident(ref, nil, &session.IncidentReport{Incident: session.Incident{Lines: 3,
		Closed: true}})
	m.Alert("webhook", "failed")
	m.AlertsWaiting("webhook", 2)
	m.AlertsWaiting("webhook", -1)
	m.Compared(tallied(tokenizer.Tally{Bytes: 16, Bits: 32}, nil),
		tallied(tokenizer.Tally{
			Bytes: 15, Bits: 30, Unknown: 1, UnknownBytes: 5, UnknownBits: 9,
		}, nil))
	m.Completed(session.FinishStop, 5)
	m.Snapshot(time.Second, nil)
	m.Snapshot(time.Second, errors.New("no room"))
	m.Replayed(1000)
	m.Loaded("words-2", time.Second, nil)
	m.Loaded("words-2", time.Second, errors.New("gone"))
	m.Dropped("words-2")
	m.Claimed(false)
	m.Claimed(true)
	m.Fenced()
	m.Proxied()
	m.Among(func() int { return 3 })
	m.ScrubFinding()
	m.Follow(source{
		Sessions: 3, Hot: 1, Waiting: 2, MemoryBytes: 100, MemoryBytesMax: 1000, DiskAlarm: true,
		Models: []session.ModelStats{{ID: "small-1", States: 1, WeightsBytes: 50}, {ID: "words-2"}},
		Disk:   &storage.Usage{Sessions: 3, Temporary: 4, Left: 5, All: 6},
	})
	return m
}

func text(t *testing.T, m *Metrics) string {
	t.Helper()
	return answer(t, m).Body.String()
}

func answer(t *testing.T, m *Metrics, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code)
	return w
}

func TestClientChoosesFormat(t *testing.T) {
	m := used()
	plain := answer(t, m)
	require.Contains(t, plain.Header().Get("Content-Type"), "text/plain; version=0.0.4")
	open := answer(t, m, "Accept",
		"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		"Accept-Encoding", "gzip")
	require.Contains(t, open.Header().Get("Content-Type"),
		"application/openmetrics-text; version=1.0.0")
	require.Equal(t, "gzip", open.Header().Get("Content-Encoding"))
	unpacked, err := gzip.NewReader(open.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Contains(t, string(text), "lmserve_takeovers_total 1.0\n")
	require.True(t, strings.HasSuffix(string(text), "\n# EOF\n"), "OpenMetrics ends so")
}

func TestMetricsSayWhatTheyWereTold(t *testing.T) {
	got := text(t, used())
	for _, line := range strings.Split(strings.TrimSpace(`
lmserve_build_info{model="small-1",numerics="float32",version="v1"} 1
lmserve_model_info{default="yes",model="small-1"} 1
lmserve_model_info{default="no",model="words-2"} 1
lmserve_http_requests_in_flight 1
lmserve_http_requests_total{method="GET",route="/v1/sessions/{id}",status="2xx"} 1
lmserve_http_request_seconds_sum{method="GET",route="/v1/sessions/{id}"} 1
lmserve_refusals_total{problem="session-busy"} 1
lmserve_phase_seconds_count{phase="backward"} 1
lmserve_scored_bytes_total{baseline="yes",learn="true"} 16
lmserve_scored_tokens_total{baseline="yes",learn="true"} 8
lmserve_scored_shannons_total{baseline="yes",learn="true"} 24
lmserve_scored_shannons_total{baseline="no",learn="false"} 3
lmserve_baseline_shannons_total{learn="true"} 40
lmserve_baseline_shannons_total{learn="unflagged"} 0
lmserve_shadow_bytes_total{role="session"} 16
lmserve_shadow_bytes_total{role="shadow"} 10
lmserve_shadow_shannons_total{role="session"} 32
lmserve_shadow_shannons_total{role="shadow"} 21
lmserve_lines_total 2
lmserve_lines_flagged_total 1
lmserve_lines_strange_total{method="counts"} 1
lmserve_incidents_total{event="opened",method="counts"} 2
lmserve_incidents_total{event="closed",method="counts"} 1
lmserve_incidents_open 1
lmserve_alerts_total{outcome="failed",receiver="webhook"} 1
lmserve_alerts_waiting{receiver="webhook"} 1
lmserve_line_strangeness_sum 3
lmserve_line_strangeness_count 1
lmserve_model_scored_bytes_total{model="small-1"} 18
lmserve_model_scored_shannons_total{model="small-1"} 27
lmserve_model_loads_total{model="small-1"} 0
lmserve_model_loads_total{model="words-2"} 1
lmserve_model_load_failures_total{model="words-2"} 1
lmserve_model_drops_total{model="words-2"} 1
lmserve_model_states{model="small-1"} 1
lmserve_model_weights_bytes{model="small-1"} 50
lmserve_model_weights_bytes{model="words-2"} 0
lmserve_completions_total{reason="stop"} 1
lmserve_completions_total{reason="length"} 0
lmserve_completion_tokens_total 5
lmserve_snapshot_seconds_count 1
lmserve_snapshot_failures_total 1
lmserve_replayed_bytes_total 1000
lmserve_claims_total 2
lmserve_takeovers_total 1
lmserve_fenced_writes_total 1
lmserve_proxied_requests_total 1
lmserve_servers 3
lmserve_scrub_findings_total 1
lmserve_sessions{state="hot"} 1
lmserve_sessions{state="cold"} 2
lmserve_queue_length 2
lmserve_memory_bytes 100
lmserve_memory_limit_bytes 1000
lmserve_disk_bytes{kind="sessions"} 3
lmserve_disk_left_bytes 5
lmserve_disk_size_bytes 6
lmserve_disk_alarm 1`), "\n") {
		require.Contains(t, got, line+"\n")
	}
	require.Contains(t, got, "\ngo_goroutines ")
}

func TestLabelsAreBounded(t *testing.T) {
	m := New(Options{Models: []string{"small-1"}})
	for _, method := range []string{"BREW", "", "get", "TRACE"} {
		m.RequestBegan()
		m.RequestEnded(context.Background(), "", method, 404, time.Millisecond)
	}
	require.Contains(t, text(t, m),
		`lmserve_http_requests_total{method="other",route="none",status="4xx"} 4`+"\n")
	require.Equal(t, 1, strings.Count(text(t, m), "\nlmserve_http_requests_total{"))
}

// Counting must not allocate memory, because it runs for every chunk.
func TestTellingOfAChunkAllocatesNothing(t *testing.T) {
	m, bits, now, ctx := New(Options{Models: []string{"small-1"}}), 3.0, time.Now(),
		context.Background()
	var observer session.Observer = m
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for p := range session.Phases {
			observer.Phase(ctx, p, now, now)
		}
		observer.Scored("small-1", session.LearnTrue, tallied(tokenizer.Tally{Bytes: 1, Bits: 1},
			&bits))
	}))
}

func BenchmarkChunk(b *testing.B) {
	m, bits, ctx := New(Options{Models: []string{"small-1"}}), 3.0, context.Background()
	var observer session.Observer = m
	for b.Loop() {
		for p := session.PhaseOpen; p <= session.PhaseRemember; p++ {
			began := time.Now()
			observer.Phase(ctx, p, began, time.Now())
		}
		observer.Scored("small-1", session.LearnTrue,
			tallied(tokenizer.Tally{Bytes: 64, Bits: 99}, &bits))
	}
}

func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool (Debian's package prometheus has it)")
	}
	return path
}

func TestPromtoolFindsNothingWrongWithTheMetrics(t *testing.T) {
	check := exec.Command(promtool(t), "check", "metrics")
	check.Stdin = strings.NewReader(text(t, used()))
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
