package main

import (
	"encoding/json"
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

// Every query of the dashboard has a result for a server that has handled all kinds of work. The
// test assumes that all metrics of the server grew at a constant rate for ten minutes.
func TestEveryPanelOfTheDashboardDrawsSomething(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool (Debian's package prometheus has it)")
	}
	test := ruleTest{Interval: "1m", Series: seriesOf(busyServer(t))}
	for _, expr := range queries(t) {
		expr = strings.NewReplacer("$__rate_interval", "4m", "$instance", ".*").Replace(expr)
		require.NotContains(t, expr, "$")
		test.Exprs = append(test.Exprs, ruleExpr{
			Expr: "count(" + expr + ") > bool 0", EvalAt: "10m", Samples: []ruleSample{{"{}", 1}},
		})
	}
	require.Greater(t, len(test.Exprs), 20)
	text, err := json.Marshal(ruleTests{[]ruleTest{test}}) // JSON is valid YAML
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

func busyServer(t *testing.T) string {
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
	status, text := page(t, url+"/metrics")
	require.Equal(t, http.StatusOK, status)
	return text
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
