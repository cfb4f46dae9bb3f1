package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	operationsPage = "../../../docs/operations.md"
	dashboards     = "../../../deploy/grafana/*.json"
	alertsFile     = "../../../deploy/prometheus/alerts.yaml"
	alertTests     = "../../../deploy/prometheus/alerts_test.yaml"
)

var metric = regexp.MustCompile(`\b(lmserve|go|process)_[a-z_]+\b`)

func families(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(text(t, used())) {
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(kind), " ")
			all[name] = kind
		}
	}
	return all
}

func requireKnown(t *testing.T, known map[string]string, where, expression string) {
	t.Helper()
	found := metric.FindAllString(expression, -1)
	require.True(t, len(found) > 0 || strings.HasPrefix(expression, "up{"), "%s: %s", where,
		expression)
	for _, name := range found {
		base := name
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if of, ok := strings.CutSuffix(name, part); ok && known[of] == "histogram" {
				base = of
			}
		}
		require.NotEmpty(t, known[base], "%s: there is no metric %s in %s", where, name, expression)
		require.False(t, base == name && known[base] == "histogram",
			"%s: %s is a histogram, which has no value of its own: %s", where, name, expression)
	}
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	GridPos struct{ X, Y, W, H int } `json:"gridPos"`
}

func TestDashboardPanelsAskForExistingMetrics(t *testing.T) {
	known := families(t)
	files, err := filepath.Glob(dashboards)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var board struct {
			Title  string  `json:"title"`
			UID    string  `json:"uid"`
			Panels []panel `json:"panels"`
		}
		require.NoError(t, json.Unmarshal(raw, &board), file)
		require.NotEmpty(t, board.Title)
		require.NotEmpty(t, board.UID)
		ids := map[int]bool{}
		for _, p := range board.Panels {
			require.False(t, ids[p.ID], "%s: the id %d stands twice", file, p.ID)
			ids[p.ID] = true
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
			require.True(t, p.Type == "row" || len(p.Targets) > 0, p.Title)
			for _, target := range p.Targets {
				requireKnown(t, known, p.Title, target.Expr)
			}
		}
		require.Greater(t, len(ids), 10)
	}
}

type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Record      string            `yaml:"record"`
			Expr        string            `yaml:"expr"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

func TestEveryAlertIsDocumentedAndTried(t *testing.T) {
	known := families(t)
	raw, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	var all rules
	require.NoError(t, yaml.Unmarshal(raw, &all))
	tried, err := os.ReadFile(alertTests)
	require.NoError(t, err)
	var tests struct {
		Tests []struct {
			Rules []struct {
				Alert string `yaml:"alertname"`
				Want  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(tried, &tests))
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, r := range test.Rules {
			if len(r.Want) > 0 {
				fires[r.Alert] = true
			} else {
				silent[r.Alert] = true
			}
		}
	}
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	count := 0
	for _, group := range all.Groups {
		for _, r := range group.Rules {
			require.NotEmpty(t, r.Alert)
			requireKnown(t, known, r.Alert, r.Expr)
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.NotEmpty(t, r.Annotations["description"], r.Alert)
			require.Contains(t, string(page), "| `"+r.Alert+"` |")
			require.True(t, fires[r.Alert], "no test has %s fire", r.Alert)
			require.True(t, silent[r.Alert], "no test has %s not fire", r.Alert)
			count++
		}
	}
	require.Greater(t, count, 5)
}

func TestPromtoolEvaluatesTheAlerts(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", alertTests}} {
		out, err := exec.Command(promtool(t), args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// After the help text, a cell of the table may refer to a section of the page.
func TestTableListsAllMetrics(t *testing.T) {
	page, err := os.ReadFile(operationsPage)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "| metric | type | labels |")
	require.True(t, found)
	table, _, _ := strings.Cut(after, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.Contains(line, "`") {
			for i, cell := range cells {
				cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, "`", ""))
			}
			help, _, _ := strings.Cut(cells[4], " See ")
			rows = append(rows, cells[1]+" "+cells[2]+" "+cells[3]+": "+help)
		}
	}
	slices.Sort(rows)
	require.Equal(t, strings.Join(described(t), "\n"), strings.Join(rows, "\n"))
}

func described(t *testing.T) (all []string) {
	t.Helper()
	gathered, err := used().registry.Gather()
	require.NoError(t, err)
	for _, f := range gathered {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if len(labels) == 0 {
			labels = []string{"-"}
		}
		kind := strings.ToLower(f.GetType().String())
		all = append(all, f.GetName()+" "+kind+" "+strings.Join(labels, ", ")+": "+f.GetHelp())
	}
	slices.Sort(all)
	return all
}
