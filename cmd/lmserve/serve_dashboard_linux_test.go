package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const dashboard = "../../deploy/grafana/lmserve.json"

// ruleTests is the content of a file of unit tests for promtool.
type ruleTests struct {
	Tests []ruleTest `json:"tests"`
}

type ruleTest struct {
	Interval string       `json:"interval"`
	Series   []ruleSeries `json:"input_series"`
	Exprs    []ruleExpr   `json:"promql_expr_test"`
}

type ruleSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type ruleExpr struct {
	Expr    string       `json:"expr"`
	EvalAt  string       `json:"eval_time"`
	Samples []ruleSample `json:"exp_samples"`
}

type ruleSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// Every query of the dashboard has a result for a server that has handled all kinds of work, in
// each format of the metrics. The test assumes that all metrics of the server grew at a constant
// rate for ten minutes.
func TestEveryPanelOfTheDashboardDrawsSomething(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool (Debian's package prometheus has it)")
	}
	var exprs []ruleExpr
	for _, expr := range queries(t) {
		expr = strings.NewReplacer("$__rate_interval", "4m", "$instance", ".*").Replace(expr)
		require.NotContains(t, expr, "$")
		exprs = append(exprs, ruleExpr{
			Expr: "count(" + expr + ") > bool 0", EvalAt: "10m", Samples: []ruleSample{{"{}", 1}},
		})
	}
	require.Greater(t, len(exprs), 20)
	var tests ruleTests
	for _, metrics := range busyServer(t) {
		tests.Tests = append(tests.Tests, ruleTest{"1m", seriesOf(metrics), exprs})
	}
	text, err := json.Marshal(tests) // JSON is valid YAML
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func queries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// busyServer returns the metrics of a server that has handled all kinds of work, as text and as
// OpenMetrics.
func busyServer(t *testing.T) (metrics []string) {
	t.Helper()
	receiver := newHook(t)
	receiver.turn(true) // the receiver refuses alerts, so some alerts stay pending
	url, stop := serving(t, "--model", randomModel(t), "--data-dir", t.TempDir(), "--alerts",
		receiver.URL, "--alert-threshold", "1/100")
	defer stop()
	ask := func(method, path, body string, want int) map[string]any {
		t.Helper()
		status, answer := send(t, method, url+path, "", body)
		require.Equal(t, want, status, "%s %s: %v", method, path, answer)
		return answer
	}
	const live = "/v1/sessions/live"
	ask(http.MethodPut, live, `{"settings":{"baseline":true}}`, http.StatusCreated)
	ask(http.MethodPut, "/v1/sessions/next", `{"shadow_of":"live"}`, http.StatusCreated)
	ask(http.MethodPost, live+"/score?unit=line",
		`{"text":"`+strings.Repeat(`GET / 200\n`, 100)+`"}`, http.StatusOK)
	ask(http.MethodPost, live+"/complete", `{"max_tokens":3}`, http.StatusOK)
	ask(http.MethodGet, "/v1/sessions/none", "", http.StatusNotFound)
	ask(http.MethodPost, live+"/score", `{"text":"PANIC of shard a\n`+
		strings.Repeat(`GET / 200\n`, 5)+`"}`, http.StatusOK)
	require.Eventually(t, receiver.tried, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		is := ask(http.MethodGet, "/v1/sessions/next", "", http.StatusOK)
		return is["shadow_of"].(map[string]any)["behind_bytes"] == 0.
	}, time.Minute, 10*time.Millisecond)
	for _, format := range []string{"text/plain", "application/openmetrics-text"} {
		metrics = append(metrics, scrape(t, url+"/metrics", format))
	}
	return metrics
}

func scrape(t *testing.T, url, format string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", format)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), format)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// seriesOf turns the metrics of one scrape into series that grow at a constant rate.
func seriesOf(metrics string) (all []ruleSeries) {
	for line := range strings.Lines(metrics) {
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		name, value := line[:at], strings.TrimSpace(line[at+1:])
		base, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		series := base + `{instance="a:9090",job="lmserve",` + labels + `}`
		if !strings.HasPrefix(value, "-") && !strings.ContainsAny(value, "IN") {
			all = append(all, ruleSeries{series, "0+" + value + "x10"})
		}
	}
	return all
}
