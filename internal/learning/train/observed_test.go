package train_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/internal/learning/train/report"
)

// sittings observes consecutive runs, and starts a new report for each run.
type sittings struct {
	report.Options
	now train.Observer
}

func (s *sittings) Observe(e train.Event) (err error) {
	if _, first := e.(train.Opened); first || s.now == nil {
		if s.now, err = report.New(s.Options); err != nil {
			return err
		}
	}
	return s.now.Observe(e)
}

func reported(o *train.Options, r report.Options) { o.Observer = &sittings{Options: r} }

func readMetrics(t *testing.T, path string) []report.Metric {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var lines []report.Metric
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	for {
		var m report.Metric
		if err := d.Decode(&m); err == io.EOF {
			return lines
		} else {
			require.NoError(t, err)
		}
		lines = append(lines, m)
	}
}

func TestPretrainingLearns(t *testing.T) {
	o := train.TinyPretraining(t)
	o.Pretrain.Steps, o.Pretrain.Batch = 90, 6
	o.Pretrain.SlowOptions = train.SlowOptions{Rate: 1e-2, Warmup: 5, Clip: 1}
	o.Valid, o.Validation = train.WriteText(t, 300), train.ValidationOptions{Every: 60}
	dir := t.TempDir()
	var log bytes.Buffer
	metrics := filepath.Join(dir, "metrics.jsonl")
	o.Out = filepath.Join(dir, "model.safetensors")
	reported(&o, report.Options{LogEvery: 5, Metrics: metrics, Progress: &log})
	done, err := train.Run(context.Background(), o)
	require.NoError(t, err)

	lines := readMetrics(t, metrics)
	require.Equal(t, "start", lines[0].Event)
	require.Equal(t, "end", lines[len(lines)-1].Event)
	first, last := report.Metric{}, report.Metric{}
	for _, m := range lines {
		if m.Event == "step" {
			if first.Step == 0 {
				first = m
			}
			last = m
		}
	}
	require.Equal(t, 90, last.Step)
	require.EqualValues(t, 90*6*16, last.Tokens)
	require.Greater(t, first.Loss, 4.0) // a uniform guess has the loss ln 256 = 5.5
	require.Less(t, last.Loss, 2.5)     // the text has about 16 different letters; ln 16 = 2.8
	require.InDelta(t, last.Loss*1.442695, last.Bits, 1e-5)

	require.Len(t, done.Phases, 1)
	require.Equal(t, 90, done.Phases[0].Steps)
	require.Equal(t, 90, done.Phases[0].Best.Step)
	require.Less(t, done.Phases[0].Best.Static, 4.0)
	require.Nil(t, done.Phases[0].Best.Adaptive)
	require.Contains(t, log.String(), "pretrain step 60  valid bits/byte static")
	require.Contains(t, done.String(), "pretrain: 90 steps, 8640 tokens, training bits/byte")
	require.Contains(t, done.String(), "written to "+o.Out)

	m, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, done.Model, m.ID())
	require.Nil(t, m.Learner)
	var c train.Card
	require.NoError(t, json.Unmarshal(m.Card, &c))
	require.Equal(t, done.Phases, c.Results)
	require.Equal(t, 8, c.Recipe.Data.Files)
}

// Resume is allowed even for the first sitting of a run, so that all sittings can have the same
// command line.
func TestResumeWithoutACheckpointStarts(t *testing.T) {
	o := train.TinyPretraining(t)
	var log bytes.Buffer
	o.Dir, o.Resume = filepath.Join(t.TempDir(), "run"), true
	reported(&o, report.Options{Progress: &log})
	fresh, err := train.Run(context.Background(), o)
	require.NoError(t, err)
	require.Contains(t, log.String(), o.Dir+
		" has no checkpoint yet; the run starts from the beginning")
	log.Reset()
	again, err := train.Run(context.Background(), o)
	require.NoError(t, err)
	require.NotContains(t, log.String(), "has no checkpoint yet")
	require.Equal(t, fresh.Model, again.Model)
}

func TestJointWindowLearns(t *testing.T) {
	o := train.TinyMeta(t, train.SchemeWindow)
	o.Phases, o.Valid = []string{train.PhaseJoint}, train.ValidNone
	o.Meta.Window.Batch = 6
	o.Joint = train.JointOptions{Steps: 40, SlowOptions: train.SlowOptions{Rate: 1e-2, Warmup: 5,
		Clip: 1}}
	metrics := filepath.Join(t.TempDir(), "m")
	reported(&o, report.Options{LogEvery: 8, Metrics: metrics})
	_, err := train.Run(context.Background(), o)
	require.NoError(t, err)
	lines := readMetrics(t, metrics)
	first, last := lines[1], lines[len(lines)-2]
	require.Equal(t, "step", first.Event)
	require.Equal(t, "step", last.Event)
	require.Less(t, last.Loss, first.Loss-1)
}

func TestPageShowsTheWholeRun(t *testing.T) {
	o := train.TinyMeta(t, train.SchemeOnline)
	o.Dir, o.Name = filepath.Join(t.TempDir(), "run"), "a <b>name</b> & more"
	file := filepath.Join(t.TempDir(), "report.html")
	reported(&o, report.Options{LogEvery: 1, Page: file})
	train.Resumed(t, o, 2, 6, 9)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	page := string(text)

	done, err := train.Run(context.Background(),
		func() train.Options { o.Resume = true; return o }())
	require.NoError(t, err)
	require.Contains(t, page, "a &lt;b&gt;name&lt;/b&gt; &amp; more")
	require.NotContains(t, page, "<b>name")
	require.Contains(t, page, fmt.Sprintf("<strong>%.4f</strong> adaptive", *done.Stored.Adaptive))
	for _, p := range done.Phases {
		require.Contains(t, page, "<h2>"+p.Phase+"</h2>")
		require.Contains(t, page, fmt.Sprintf("%.4f", p.Best.Static))
	}
	require.Equal(t, 9, strings.Count(page, "<svg"), "three charts a phase")
	for _, field := range []string{"d_model", "online.piece_min", "fingerprint", "settings.gammas",
		"0.99, 0.99975", "attention_dropout"} {
		require.Contains(t, page, field)
	}
	require.NotRegexp(t, regexp.MustCompile(`(src|href)=`), strings.ReplaceAll(page, "xlink:href",
		""))
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

// canceler cancels a context at the first line of progress.
type canceler context.CancelFunc

func (c canceler) Write(line []byte) (int, error) {
	c()
	return len(line), nil
}

func TestPageOfAnInterruptedRunSaysSo(t *testing.T) {
	o := train.TinyPretraining(t)
	file := filepath.Join(t.TempDir(), "report.html")
	ctx, cancel := context.WithCancel(context.Background())
	reported(&o, report.Options{Page: file, Progress: canceler(cancel)})
	_, err := train.Run(ctx, o)
	require.ErrorIs(t, err, train.ErrInterrupted)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "Not finished: interrupted in phase pretrain after step 0.")
}

// At the start, a run reports its plan. The trial steps that estimate the time do not change the
// model.
func TestPlanIsReportedAtTheStart(t *testing.T) {
	o := train.TinyMeta(t, train.SchemeOnline)
	var log bytes.Buffer
	reported(&o, report.Options{Progress: &log})
	told, err := train.Run(context.Background(), o)
	require.NoError(t, err)
	for _, want := range []string{
		"bytes in 8 files and 4 domains in " + o.Data + ", of which pretraining does not see " +
			"domain3; validation on ",
		"pretrain: 10,040 weights; a step is 3 streams of 16 tokens, 0.0107 times through 18,0",
		"meta: online, 6,528 fast weights (branches: 2, banks: 2); a step is 2 chunks of 16 " +
			"tokens; 4 steps, 0 done",
		"joint: online, 10,040 slow and 6,528 fast weights (",
		"no folder for checkpoints is given: if the run is interrupted, its results are lost",
	} {
		require.Contains(t, log.String(), want)
	}
	require.Regexp(t, `estimated time: \d+ s \(pretrain \d+ s, meta \d+ s, joint \d+ s\)\n`,
		log.String())
	o.Observer = nil
	silent, err := train.Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, silent.Model, told.Model)
}

func TestLaterPhasesAreCheckedFirst(t *testing.T) {
	o := train.TinyMeta(t, train.SchemeOnline)
	metrics := filepath.Join(t.TempDir(), "m")
	o.Meta.Branches = []string{"layers.9.*"}
	reported(&o, report.Options{Metrics: metrics})
	_, err := train.Run(context.Background(), o)
	require.ErrorContains(t, err, "layers.9.*")
	text, err := os.ReadFile(metrics)
	require.NoError(t, err)
	require.Empty(t, text)
}

func TestMissingThingsAreNamed(t *testing.T) {
	base := train.TinyPretraining(t)
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for name, change := range map[string]func(*train.Options){
		"data":  func(o *train.Options) { o.Data = nowhere },
		"valid": func(o *train.Options) { o.Valid = nowhere },
		"model": func(o *train.Options) { o.Init = nowhere },
		"metrics": func(o *train.Options) {
			reported(o,
				report.Options{Metrics: filepath.Join(nowhere, "m")})
		},
		"out": func(o *train.Options) { o.Out = filepath.Join(nowhere, "m") },
	} {
		o := base
		change(&o)
		_, err := train.Run(context.Background(), o)
		require.ErrorContains(t, err, nowhere, name)
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
}

func TestDirectoriesAndFilesAreToldApart(t *testing.T) {
	base := train.TinyPretraining(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o666))
	for name, c := range map[string]struct {
		change func(*train.Options)
		want   string
	}{
		"data": {func(o *train.Options) { o.Data = file }, file +
			" is a file, expected a directory of text files"},
		"valid": {func(o *train.Options) { o.Valid = file }, file +
			" is a file, expected a directory of text files"},
		"init": {func(o *train.Options) { o.Init = dir }, dir +
			": found a directory, expected a regular file"},
		"out": {func(o *train.Options) { o.Out = dir }, dir +
			" is a directory, expected the name of a file to write"},
		"device": {func(o *train.Options) { o.Out = os.DevNull }, os.DevNull +
			" is a device or a pipe, expected the name of a file to write"},
		"report": {func(o *train.Options) { reported(o, report.Options{Page: dir}) }, dir +
			" is a directory, expected the name of a file to write"},
		"metrics": {func(o *train.Options) { reported(o, report.Options{Metrics: dir}) }, dir +
			": is a directory"},
		"checkpoints": {func(o *train.Options) { o.Dir = file }, file + ": not a directory"},
	} {
		o := base
		c.change(&o)
		_, err := train.Run(context.Background(), o)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestTooLittleDataIsReportedBeforeTheRun(t *testing.T) {
	o := train.TinyPretraining(t)
	o.Data = train.WriteTree(t, map[string]string{"a/1": "hardly a text\n", "b/1": "nor this"})
	reported(&o, report.Options{Metrics: filepath.Join(t.TempDir(), "m")})
	_, err := train.Run(context.Background(), o)
	require.ErrorIs(t, err, corpus.ErrData)
	require.ErrorContains(t, err,
		o.Data+" contains 22 bytes of text in 2 files, expected at least "+
			"48 (3 streams of 16 bytes; fewer or shorter ones need less)")
	o.Data = train.WriteTree(t, map[string]string{"a/empty": ""})
	_, err = train.Run(context.Background(), o)
	require.ErrorIs(t, err, corpus.ErrData)
	require.ErrorContains(t, err, "contains no text")
}

func TestFullDiskUnderTheMetricsIsReported(t *testing.T) {
	if _, err := os.Stat("/dev/full"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /dev/full here")
	}
	o := train.TinyPretraining(t)
	reported(&o, report.Options{Metrics: "/dev/full"})
	_, err := train.Run(context.Background(), o)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "metrics file /dev/full")
}
