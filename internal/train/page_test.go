package train

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/chart"
)

// The page of a run of three phases in several sittings has all of them: results, curves, recipe. It needs nothing from anywhere else.
func TestPageShowsTheWholeRun(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Dir, o.LogEvery, o.Name = filepath.Join(t.TempDir(), "run"), 1, "a <b>name</b> & more"
	o.Report = filepath.Join(t.TempDir(), "report.html")
	resumed(t, o, 2, 6, 9)
	text, err := os.ReadFile(o.Report)
	require.NoError(t, err)
	page := string(text)

	report, err := Run(context.Background(), func() Options { o.Resume = true; return o }())
	require.NoError(t, err)
	require.Contains(t, page, "a &lt;b&gt;name&lt;/b&gt; &amp; more")
	require.NotContains(t, page, "<b>name")
	require.Contains(t, page, fmt.Sprintf("<strong>%.4f</strong> adaptive", *report.Stored.Adaptive))
	for _, p := range report.Phases {
		require.Contains(t, page, "<h2>"+p.Phase+"</h2>")
		require.Contains(t, page, fmt.Sprintf("%.4f", p.Best.Static))
	}
	require.Equal(t, 9, strings.Count(page, "<svg"), "three charts a phase")
	for _, field := range []string{"d_model", "online.piece_min", "fingerprint", "settings.gammas", "0.99, 0.99975", "attention_dropout"} {
		require.Contains(t, page, field)
	}
	require.NotRegexp(t, regexp.MustCompile(`(src|href)=`), strings.ReplaceAll(page, "xlink:href", ""))
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		wellFormed(t, svg)
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else {
			require.NoError(t, err)
		}
	}
}

func TestPageOfAnInterruptedRunSaysSo(t *testing.T) {
	o := pretrainOptions(t)
	o.Report = filepath.Join(t.TempDir(), "report.html")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, ErrInterrupted)
	text, err := os.ReadFile(o.Report)
	require.NoError(t, err)
	require.Contains(t, string(text), "Not finished: interrupted in phase pretrain after step 0.")
}

func TestThinnedCurvesKeepTheirMean(t *testing.T) {
	var points []chart.Point
	for i := range 10*curvePoints + 7 {
		points = append(points, chart.Point{X: float64(i), Y: 2 * float64(i)})
	}
	thin := thinned(points)
	require.Len(t, thin, curvePoints)
	for i, p := range thin {
		require.InDelta(t, 2*p.X, p.Y, 1e-6)
		if i > 0 {
			require.Greater(t, p.X, thin[i-1].X)
		}
	}
	require.Equal(t, points[:curvePoints], thinned(points[:curvePoints]))
}

// A person is told at the start what will be done and how long it will take; the model is not touched by the trial steps.
func TestPlanIsToldAtTheStart(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	var log bytes.Buffer
	o.Progress = &log
	told, err := Run(context.Background(), o)
	require.NoError(t, err)
	for _, want := range []string{
		"bytes in 8 files and 4 domains in " + o.Data + ", of which pretraining does not see domain3; validation on ",
		"pretrain: 10,040 weights; a step is 3 streams of 16 tokens, 0.0107 times through 18,0",
		"meta: online, 6,528 fast weights (branches: 2, banks: 2); a step is 2 chunks of 16 tokens; 4 steps, 0 made",
		"joint: online, 10,040 slow and 6,528 fast weights (",
		"without a folder for checkpoints an interruption loses everything",
	} {
		require.Contains(t, log.String(), want)
	}
	require.Regexp(t, `this will take about \d+ s here: pretrain \d+ s, meta \d+ s, joint \d+ s\n`, log.String())
	o.Progress = nil
	silent, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, silent.Model, told.Model)
}

// What is wrong with a later phase is told before the first has begun.
func TestLaterPhasesAreCheckedFirst(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Meta.Branches, o.Metrics = []string{"layers.9.*"}, filepath.Join(t.TempDir(), "m")
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "layers.9.*")
	text, err := os.ReadFile(o.Metrics)
	require.NoError(t, err)
	require.Empty(t, text)
}
