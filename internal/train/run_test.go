package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// tinyModel has about ten thousand weights.
var tinyModel = txl.Config{NLayer: 1, DModel: 24, NHead: 2, DHead: 8, DInner: 32, Vocab: 256, SegLen: 16, MemLen: 16}

// writeText makes a folder of easy text: lines of a few words, other words in each domain.
func writeText(t *testing.T, bytesPerFile int) string {
	t.Helper()
	files := map[string]string{}
	for d, words := range []string{"red green blue", "one two three four", "mov add push pop", "<a> <b> </a> </b>"} {
		rng := rand.New(rand.NewPCG(uint64(d), 1))
		list := strings.Fields(words)
		for f := range 2 {
			var b strings.Builder
			for b.Len() < bytesPerFile {
				b.WriteString(list[rng.IntN(len(list))])
				b.WriteByte(" \n"[rng.IntN(8)/7])
			}
			files[fmt.Sprintf("domain%d/%d.txt", d, f)] = b.String()
		}
	}
	return writeTree(t, files)
}

// pretrainOptions trains the tiny model for a few steps.
func pretrainOptions(t *testing.T) Options {
	return Options{
		Phases: []string{PhasePretrain}, Valid: ValidNone, Model: tinyModel, Data: writeText(t, 3000), Name: "tiny", Seed: 7, Threads: 1,
		Pretrain: PretrainOptions{Steps: 12, Batch: 3, SlowOptions: SlowOptions{Rate: 3e-3, Warmup: 3, Dropout: .1, AttentionDropout: .1}},
		Meta:     MetaOptions{Chunk: 16},
		LogEvery: 4, CheckpointEvery: 5,
	}
}

func readMetrics(t *testing.T, path string) []Metric {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var lines []Metric
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	for {
		var m Metric
		if err := d.Decode(&m); err == io.EOF {
			return lines
		} else {
			require.NoError(t, err)
		}
		lines = append(lines, m)
	}
}

func TestPretrainingLearns(t *testing.T) {
	o := pretrainOptions(t)
	o.Pretrain.Steps, o.Pretrain.Batch = 90, 6
	o.Pretrain.SlowOptions = SlowOptions{Rate: 1e-2, Warmup: 5, Clip: 1}
	o.LogEvery = 5
	o.Valid, o.Validation = writeText(t, 300), ValidationOptions{Every: 60}
	dir := t.TempDir()
	o.Out, o.Metrics = filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "metrics.jsonl")
	var log bytes.Buffer
	o.Progress = &log
	report, err := Run(context.Background(), o)
	require.NoError(t, err)

	lines := readMetrics(t, o.Metrics)
	require.Equal(t, "start", lines[0].Event)
	require.Equal(t, "end", lines[len(lines)-1].Event)
	first, last := Metric{}, Metric{}
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
	require.Greater(t, first.Loss, 4.0) // near ln 256 = 5.5 at first
	require.Less(t, last.Loss, 2.5)     // the text has about 16 letters
	require.InDelta(t, last.Loss*1.442695, last.BPC, 1e-5)

	require.Len(t, report.Phases, 1)
	require.Equal(t, 90, report.Phases[0].Steps)
	require.Equal(t, 90, report.Phases[0].Best.Step)
	require.Less(t, report.Phases[0].Best.Static, 4.0)
	require.Nil(t, report.Phases[0].Best.Adaptive)
	require.Contains(t, log.String(), "pretrain step 60  valid bpc static")
	require.Contains(t, report.String(), "pretrain: 90 steps, 8640 tokens, training bpc")
	require.Contains(t, report.String(), "written to "+o.Out)

	m, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, report.Model, m.ID())
	require.Nil(t, m.Learner)
	var c card
	require.NoError(t, json.Unmarshal(m.Card, &c))
	require.Equal(t, report.Phases, c.Results)
	require.Equal(t, 8, c.Recipe.Data.Files)
}

// resumed runs the options with interruptions after the given steps, counted over all phases.
func resumed(t *testing.T, o Options, stops ...int) {
	t.Helper()
	for i, stop := range stops {
		o.Resume = i > 0
		ctx, cancel := context.WithCancel(context.Background())
		r, last, err := open(o)
		require.NoError(t, err)
		_, err = r.phases(&stopAt{Context: ctx, run: r, step: stop, cancel: cancel}, last)
		r.x.Close()
		var interrupted *InterruptedError
		require.ErrorAs(t, err, &interrupted)
		require.Equal(t, stop, r.steps())
		require.Equal(t, r.at.Step, interrupted.Step)
		require.ErrorIs(t, err, ErrInterrupted)
		require.ErrorIs(t, err, context.Canceled)
		require.FileExists(t, interrupted.Checkpoint)
		require.ErrorContains(t, err, fmt.Sprintf("in phase %s after step %d; resume from %s", r.at.Phase, r.at.Step, interrupted.Checkpoint))
	}
	o.Resume = len(stops) > 0
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
}

// stopAt is a context that ends when a run has made so many steps.
type stopAt struct {
	context.Context
	run    *run
	step   int
	cancel context.CancelFunc
}

func (c *stopAt) Err() error {
	if c.run.steps() >= c.step {
		c.cancel()
	}
	return c.Context.Err()
}

// steps are those made in all phases.
func (r *run) steps() int {
	n := r.at.Step
	for _, done := range r.at.Done {
		n += done.Steps
	}
	return n
}

// requireSameResult runs the options uninterrupted and with interruptions, and compares the models and the last checkpoints byte for byte.
func requireSameResult(t *testing.T, o Options, stops ...int) {
	t.Helper()
	read := func(stops ...int) (model, last []byte) {
		dir := t.TempDir()
		o := o
		o.Dir, o.Out = filepath.Join(dir, "run"), filepath.Join(dir, "model.safetensors")
		resumed(t, o, stops...)
		model, err := os.ReadFile(o.Out)
		require.NoError(t, err)
		last, err = os.ReadFile(filepath.Join(o.Dir, lastName))
		require.NoError(t, err)
		return model, last
	}
	model, last := read()
	model2, last2 := read(stops...)
	require.True(t, bytes.Equal(last, last2), "the checkpoints at the end differ")
	require.True(t, bytes.Equal(model, model2), "the models differ")
}

func TestPretrainingResumesToTheSameBits(t *testing.T) {
	o := pretrainOptions(t)
	o.Valid, o.Validation = writeText(t, 200), ValidationOptions{Every: 3, Bytes: 100}
	for _, stops := range [][]int{{0, 1, 4}, {6, 7, 11}} {
		t.Run(fmt.Sprint(stops), func(t *testing.T) { requireSameResult(t, o, stops...) })
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	for name, o := range map[string]Options{
		"pretrain": pretrainOptions(t), "online": metaOptions(t, SchemeOnline), "window": metaOptions(t, SchemeWindow),
	} {
		o.Pretrain.Steps, o.Meta.Steps, o.Joint.Steps, o.Valid = 4, 2, 2, ValidNone
		var files [][]byte
		for _, threads := range []int{1, 3} {
			o.Threads, o.Out = threads, filepath.Join(t.TempDir(), "m")
			_, err := Run(context.Background(), o)
			require.NoError(t, err)
			text, err := os.ReadFile(o.Out)
			require.NoError(t, err)
			files = append(files, text)
		}
		require.True(t, bytes.Equal(files[0], files[1]), name)
	}
}

func TestCheckpointOfAnotherRunIsRefused(t *testing.T) {
	o := pretrainOptions(t)
	o.Dir = filepath.Join(t.TempDir(), "run")
	o.Pretrain.Steps, o.Pretrain.Warmup = 2, 1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)

	_, err = Run(context.Background(), o)
	require.ErrorIs(t, err, ErrCheckpoint)
	require.ErrorContains(t, err, "holds a run already")

	o.Resume = true
	other := writeText(t, 2000)
	for field, change := range map[string]func(*Options){
		"model.d_inner":  func(o *Options) { o.Model.DInner = 48 },
		"pretrain.steps": func(o *Options) { o.Pretrain.Steps = 3 },
		"pretrain.rate":  func(o *Options) { o.Pretrain.Rate = .5 },
		"seed":           func(o *Options) { o.Seed = 1<<63 + 1 },
		"data.bytes":     func(o *Options) { o.Data = other },
		"hold_out":       func(o *Options) { o.HoldOut = []string{"domain1"} },
		"phases":         func(o *Options) { o.Phases = nil },
	} {
		o := o
		change(&o)
		_, err := Run(context.Background(), o)
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch, field)
		if field == "phases" { // the meta options differ, too, and come first
			require.Equal(t, "meta", mismatch.Field)
			continue
		}
		require.Equal(t, field, mismatch.Field)
		require.Contains(t, err.Error(), o.Dir)
	}
}

// Under the schedule wsd a run may be prolonged before its learning rate comes down, and ends as if it had been as long from its start.
func TestARunMayBeProlongedBeforeItsDecay(t *testing.T) {
	interrupted := func(step int) Options {
		o := pretrainOptions(t)
		o.Dir, o.Out = filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "m")
		o.Pretrain.Schedule, o.Pretrain.Steps = ScheduleWSD, 20 // down from step 16
		ctx, cancel := context.WithCancel(context.Background())
		r, last, err := open(o)
		require.NoError(t, err)
		_, err = r.phases(&stopAt{Context: ctx, run: r, step: step, cancel: cancel}, last)
		require.ErrorIs(t, err, ErrInterrupted)
		r.x.Close()
		o.Resume, o.Pretrain.Steps = true, 30
		return o
	}
	o := interrupted(16)
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	whole := o
	whole.Dir, whole.Resume, whole.Out = "", false, o.Out+"2"
	_, err = Run(context.Background(), whole)
	require.NoError(t, err)
	a, err := os.ReadFile(o.Out)
	require.NoError(t, err)
	b, err := os.ReadFile(whole.Out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b))

	_, err = Run(context.Background(), interrupted(17))
	require.ErrorContains(t, err, "pretrain.steps is 20 there and 30 here")
}

func TestSeedsThatAFloatCannotTellApartDiffer(t *testing.T) {
	o := pretrainOptions(t)
	o.Dir, o.Seed, o.Pretrain.Steps, o.Pretrain.Warmup = filepath.Join(t.TempDir(), "run"), 1<<62, 1, -1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	o.Resume, o.Seed = true, 1<<62+1
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "seed is 4611686018427387904 there and 4611686018427387905 here")
}

func TestDamagedCheckpointsAreRefused(t *testing.T) {
	o := pretrainOptions(t)
	o.Dir, o.Pretrain.Steps, o.Pretrain.Warmup = filepath.Join(t.TempDir(), "run"), 2, 1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	o.Resume = true
	last := filepath.Join(o.Dir, lastName)
	whole, err := os.ReadFile(last)
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"truncated": whole[:len(whole)/2], "empty": {}, "no checkpoint": bytes.Replace(whole, []byte(checkpointKind), []byte("lmserve.something!"), 1),
		"a tensor is missing": bytes.Replace(whole, []byte(`"adam.m"`), []byte(`"adam.q"`), 1),
		"another phase":       bytes.Replace(whole, []byte(`{\"phase\":\"pretrain\",\"step\"`), []byte(`{\"phase\":\"pretrans\",\"step\"`), 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, bytes.Equal(text, whole))
			require.NoError(t, os.WriteFile(last, text, 0o666))
			_, err := Run(context.Background(), o)
			require.ErrorIs(t, err, ErrCheckpoint)
			require.ErrorContains(t, err, last)
		})
	}
}

// One command line serves every sitting: to resume where there is no checkpoint yet is to start, and it is said.
func TestResumeWithoutACheckpointStarts(t *testing.T) {
	o := pretrainOptions(t)
	var log bytes.Buffer
	o.Dir, o.Resume, o.Progress = filepath.Join(t.TempDir(), "run"), true, &log
	fresh, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Contains(t, log.String(), "there is no checkpoint in "+o.Dir+" yet: the run starts from its beginning")
	log.Reset()
	again, err := Run(context.Background(), o) // of a run that has ended: its end once more
	require.NoError(t, err)
	require.NotContains(t, log.String(), "there is no checkpoint")
	require.Equal(t, fresh.Model, again.Model)
}

func TestOptionsAreValidated(t *testing.T) {
	data := writeText(t, 100)
	for field, change := range map[string]func(*Options){
		"Phases":                    func(o *Options) { o.Phases = []string{"posttrain"} },
		"Data":                      func(o *Options) { o.Data = "" },
		"Init":                      func(o *Options) { o.Phases = []string{PhaseMeta} },
		"Dir":                       func(o *Options) { o.Resume = true },
		"Threads":                   func(o *Options) { o.Threads = -1 },
		"Pretrain.Batch":            func(o *Options) { o.Pretrain.Batch = -1 },
		"Pretrain.Dropout":          func(o *Options) { o.Pretrain.Dropout = 1 },
		"Pretrain.Warmup":           func(o *Options) { o.Pretrain.Steps, o.Pretrain.Warmup = 10, 11 },
		"Joint.Warmup":              func(o *Options) { o.Joint.Warmup = 1 << 20 },
		"Pretrain.Schedule":         func(o *Options) { o.Pretrain.Schedule = "sine" },
		"Meta.Schedule":             func(o *Options) { o.Meta.Schedule = "sine" },
		"Meta.Scheme":               func(o *Options) { o.Meta.Scheme = "batch" },
		"Meta.Online.PieceMin":      func(o *Options) { o.Meta.Online.PieceMin = 1 << 20 },
		"Meta.Window.K":             func(o *Options) { o.Meta.Window.K = 1 },
		"Meta.Window.P":             func(o *Options) { o.Meta.Window.P = 1.5 },
		"Joint.Final":               func(o *Options) { o.Joint.Final = -1 },
		"Validation.Patience":       func(o *Options) { o.Validation.Patience = -1 },
		"CheckpointEvery":           func(o *Options) { o.CheckpointEvery = -3 },
		"Meta.Online.Chunks":        func(o *Options) { o.Meta.Online.Chunks = -2 },
		"Meta.Window.Batch":         func(o *Options) { o.Meta.Window.Batch = 1 << 20 },
		"Pretrain.Segment":          func(o *Options) { o.Pretrain.Segment = 1 << 20 },
		"Meta.Chunk":                func(o *Options) { o.Meta.Chunk = -1 },
		"Meta.Rate":                 func(o *Options) { o.Meta.Rate = -1 },
		"Pretrain.AttentionDropout": func(o *Options) { o.Pretrain.AttentionDropout = -.1 },
	} {
		o := Options{Data: data}
		require.NoError(t, o.Validate())
		change(&o)
		_, err := Run(context.Background(), o)
		var option *OptionError
		require.ErrorAs(t, err, &option, field)
		require.Equal(t, field, option.Field)
		require.ErrorContains(t, err, "option "+field+" is ")
	}
	o := Options{Data: data, Meta: MetaOptions{Settings: sparsemeta.Settings{Gammas: []float32{2}, Out: 1}}}
	require.ErrorContains(t, o.Validate(), "gammas[0]")

	for want, phases := range map[string][]string{
		"Phases is meta again, expected each phase at most once": {PhaseMeta, PhaseMeta},
		"pretrain after joint, expected pretrain as the first":   {PhaseJoint, PhasePretrain},
	} {
		require.ErrorContains(t, Options{Data: data, Init: "m", Phases: phases}.Validate(), want)
	}
}

// A resumed run ends with the weights that validated best, though they are neither the last ones nor in the last checkpoint.
func TestBestWeightsSurvive(t *testing.T) {
	o := pretrainOptions(t)
	o.Pretrain.SlowOptions = SlowOptions{Rate: 2, Final: 1, Warmup: 8, Clip: -1} // soon far too fast
	o.Valid, o.Validation = writeText(t, 200), ValidationOptions{Every: 2, Bytes: 100}
	o.Metrics = filepath.Join(t.TempDir(), "metrics")
	requireSameResult(t, o, 9, 11)
	best := 0
	for _, m := range readMetrics(t, o.Metrics) {
		if m.Best {
			best = m.Step
		}
	}
	require.Positive(t, best)
	require.Less(t, best, 9)
}

// The model that the report measures and names is the one in the file, rounded as it is there.
func TestReportIsAboutTheStoredModel(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Phases, o.Init = []string{PhaseMeta}, pretrained(t)
	for store, d := range storeTypes {
		o.Store, o.Out = store, filepath.Join(t.TempDir(), "m")
		report, err := Run(context.Background(), o)
		require.NoError(t, err)
		m, err := model.Load(o.Out)
		require.NoError(t, err)
		require.Equal(t, report.Model, m.ID())
		require.Equal(t, d, m.Store)
		var c card
		require.NoError(t, json.Unmarshal(m.Card, &c))
		require.Equal(t, store, c.Store)
		require.Equal(t, report.Stored, c.Stored)

		r, _, err := open(o)
		require.NoError(t, err)
		defer r.x.Close()
		v, err := r.valid.measure(context.Background(), m, nil)
		require.NoError(t, err)
		require.InDelta(t, v.Static, report.Stored.Static, 1e-12)
		require.InDelta(t, *v.Adaptive, *report.Stored.Adaptive, 1e-12)
		require.Contains(t, report.String(), fmt.Sprintf("model %s, %s, written to %s", m.ID(), report.Stored, o.Out))
	}
	o.Store = "int8"
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, `option Store is "int8", expected float32, bf16 or f16`)
}

// A model goes on with other lengths of segment and memory than it was trained with: no weight depends on them. Nothing else can change.
func TestModelGoesOnWithOtherLengths(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Init, o.Phases, o.Meta.Steps = pretrained(t), []string{PhaseMeta}, 1
	o.Store, o.Out = "float32", filepath.Join(t.TempDir(), "m")
	before, err := model.Load(o.Init)
	require.NoError(t, err)
	o.Model = before.LM.Config
	o.Model.SegLen, o.Model.MemLen, o.Model.ClampLen, o.Model.SameLength = 24, 40, 30, true
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, o.Model, after.LM.Config)
	require.Equal(t, before.LM.W, after.LM.W)

	o.Model.DInner++
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "which the weights of the model to go on from have (only lengths can be others)")
}

// Training on can make a model worse. Then its phases end with what they began with.
func TestTrainingOnNeverMakesWorse(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Init, o.Phases, o.HoldOut = pretrained(t), []string{PhasePretrain, PhaseJoint}, nil
	o.Pretrain.SlowOptions = SlowOptions{Rate: 1, Final: 1, Warmup: -1, Clip: -1}
	o.Joint.SlowOptions, o.Joint.Steps = o.Pretrain.SlowOptions, 2
	o.Store, o.Out = "float32", filepath.Join(t.TempDir(), "m")
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	for _, p := range report.Phases {
		require.Zero(t, p.Best.Step)
	}
	before, err := model.Load(o.Init)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, before.LM.W, after.LM.W)
}

// A phase ends when validation has not become better for a while, with the weights that did best; interrupted or not.
func TestPatienceEndsAPhase(t *testing.T) {
	o := pretrainOptions(t)
	o.Phases, o.Pretrain.Steps, o.Meta.Steps, o.Meta.Online.Chunks, o.Meta.Branches = nil, 40, 1, 1, []string{"r_w_bias"}
	o.Pretrain.SlowOptions = SlowOptions{Rate: .5, Final: 1, Warmup: 8, Clip: -1} // soon far too fast
	o.Valid, o.Validation = writeText(t, 200), ValidationOptions{Every: 2, Bytes: 100, Patience: 3}
	var log bytes.Buffer
	o.Progress = &log
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	first := report.Phases[0]
	require.Less(t, first.Steps, 40)
	require.Equal(t, first.Best.Step+3*2, first.Steps)
	require.Contains(t, log.String(), fmt.Sprintf("pretrain ends at step %d of 40: 3 validations without a better one", first.Steps))
	require.Len(t, report.Phases, 2, "the next phase follows")
	require.InDelta(t, first.Best.Static, report.Phases[1].Best.Static, 1e-12, "from the best weights")
	o.Progress = nil
	requireSameResult(t, o, first.Steps-1, first.Steps)
}

// A warm step allocates nothing.
func TestPretrainingStepAllocatesNothing(t *testing.T) {
	r, _, err := open(pretrainOptions(t))
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	step := func() {
		if _, err := p.step(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(5, step))
}
