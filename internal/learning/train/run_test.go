package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

func TestPretrainingResumesToTheSameBits(t *testing.T) {
	o := TinyPretraining(t)
	o.Valid, o.Validation = WriteText(t, 200), ValidationOptions{Every: 3, Bytes: 100}
	for _, stops := range [][]int{{0, 1, 4}, {6, 7, 11}} {
		t.Run(fmt.Sprint(stops), func(t *testing.T) { requireSameResult(t, o, stops...) })
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	for name, o := range map[string]Options{
		"pretrain": TinyPretraining(t), "online": TinyMeta(t, SchemeOnline),
		"window": TinyMeta(t, SchemeWindow),
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
	o := TinyPretraining(t)
	o.Dir = filepath.Join(t.TempDir(), "run")
	o.Pretrain.Steps, o.Pretrain.Warmup = 2, 1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)

	_, err = Run(context.Background(), o)
	require.ErrorIs(t, err, ErrCheckpoint)
	require.ErrorContains(t, err, "already contains a training run")

	o.Resume = true
	other := WriteText(t, 2000)
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
		if field == "phases" { // the field meta also differs, and is compared first
			require.Equal(t, "meta", mismatch.Field)
			continue
		}
		require.Equal(t, field, mismatch.Field)
		require.Contains(t, err.Error(), o.Dir)
	}
}

// The options of companions also affect the validations of pretraining, and the resulting model.
// Checkpoints of older programs do not record them.
func TestPretrainingResumesWithItsCompanion(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir = filepath.Join(t.TempDir(), "run")
	o.Valid, o.Validation = WriteText(t, 100), ValidationOptions{Every: -1, Bytes: 50}
	o.Pretrain.Steps, o.Pretrain.Warmup = 2, 1
	o.Meta.Companion, o.Meta.CompanionBytes = true, 1<<19
	_, err := Run(context.Background(), o)
	require.NoError(t, err)

	o.Resume = true
	changes := map[string]func(*Options){
		"pretrain_companion.used":    func(o *Options) { o.Meta.Companion = false },
		"pretrain_companion.bytes":   func(o *Options) { o.Meta.CompanionBytes = 0 },
		"pretrain_companion.alone":   func(o *Options) { o.Meta.CompanionAlone = true },
		"pretrain_companion.mixture": func(o *Options) { o.Meta.Mixture = .5 },
	}
	for field, change := range changes {
		o := o
		change(&o)
		_, err := Run(context.Background(), o)
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch, field)
		require.Equal(t, field, mismatch.Field)
	}

	rewriteCheckpoint(t, o, func(metadata map[string]string) {
		fields, err := decodeFields([]byte(metadata[keyRun]))
		require.NoError(t, err)
		delete(fields, "pretrain_companion")
		metadata[keyRun] = showJSON(fields)
	})
	for _, change := range changes {
		o := o
		change(&o)
		_, _, err := open(t.Context(), o)
		require.NoError(t, err)
	}
}

func TestRunResumesInItsPrecision(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir, o.Pretrain.Steps, o.Pretrain.Warmup = filepath.Join(t.TempDir(), "run"), 1, -1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	rewriteCheckpoint(t, o, func(metadata map[string]string) {
		require.Equal(t, kernel.Float32, kernel.PrecisionOf(metadata[keyNumerics]))
		metadata[keyNumerics] = kernel.Arithmetic{Precision: kernel.BF16}.Numerics()
	})
	o.Resume = true
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "precision is bf16 in the checkpoint and float32 in this run")
}

// rewriteCheckpoint changes the metadata of a run's last checkpoint.
func rewriteCheckpoint(t *testing.T, o Options, change func(metadata map[string]string)) {
	t.Helper()
	path := filepath.Join(o.Dir, lastName)
	f, err := weights.ReadFile(path)
	require.NoError(t, err)
	change(f.Metadata)
	delete(f.Metadata, keyHash)
	f.Metadata[keyHash] = f.Hash()
	require.NoError(t, weights.WriteFile(path, f, weights.WriteOptions{}))
}

// cancelAt ends a context at the first plan of a phase, and records all plans.
type cancelAt struct {
	cancel context.CancelFunc
	plans  []Planned
	took   []time.Duration
}

func (c *cancelAt) Observe(e Event) error {
	p, ok := e.(Planned)
	if !ok {
		return nil
	}
	c.cancel()
	took, err := p.Estimate()
	c.plans, c.took = append(c.plans, p), append(c.took, took)
	return err
}

func TestInterruptionEndsThePreparation(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Dir = filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	c := &cancelAt{cancel: cancel}
	o.Observer = c
	_, err := Run(ctx, o)
	var interrupted *InterruptedError
	require.ErrorAs(t, err, &interrupted)
	require.Equal(t, PhasePretrain, interrupted.Phase)
	require.Zero(t, interrupted.Step)
	require.Len(t, c.plans, 1)
	require.Zero(t, c.took[0], "no trial step was made")

	o.Dir = filepath.Join(t.TempDir(), "run")
	_, err = Run(ctx, o)
	require.ErrorIs(t, err, ErrInterrupted)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "train: interrupted before training")
	require.NoDirExists(t, o.Dir)

	told := (&runner{}).reading(ctx, "counting words", &corpus.Corpus{})
	require.ErrorIs(t, told(1), context.Canceled)
}

// With the schedule WSD, a run can get more steps before its learning rate decays. The result
// equals the result of a run that had the larger number from its start.
func TestRunMayBeProlongedBeforeItsDecay(t *testing.T) {
	interrupted := func(step int) Options {
		o := TinyPretraining(t)
		o.Dir, o.Out = filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "m")
		// the learning rate decays from step 16
		o.Pretrain.Schedule, o.Pretrain.Steps = optim.ScheduleWSD, 20
		ctx, cancel := context.WithCancel(context.Background())
		r, last, err := open(t.Context(), o)
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
	require.ErrorContains(t, err, "pretrain.steps is 20 in the checkpoint and 30 in this run")
}

func TestSeedsThatAFloatCannotTellApartDiffer(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir, o.Seed, o.Pretrain.Steps, o.Pretrain.Warmup = filepath.Join(t.TempDir(), "run"), 1<<62,
		1, -1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	o.Resume, o.Seed = true, 1<<62+1
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "seed is 4611686018427387904 in the checkpoint and "+
		"4611686018427387905 in this run")
}

func TestDamagedCheckpointsAreRefused(t *testing.T) {
	o := TinyPretraining(t)
	o.Dir, o.Pretrain.Steps, o.Pretrain.Warmup = filepath.Join(t.TempDir(), "run"), 2, 1
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	o.Resume = true
	last := filepath.Join(o.Dir, lastName)
	whole, err := os.ReadFile(last)
	require.NoError(t, err)
	// changed replaces a text in the checkpoint's header, and corrects the checkpoint's hash.
	changed := func(old, new string) []byte {
		f, err := weights.Read(bytes.NewReader(bytes.Replace(whole, []byte(old), []byte(new), 1)),
			weights.Limits{})
		require.NoError(t, err)
		delete(f.Metadata, keyHash)
		f.Metadata[keyHash] = f.Hash()
		var text bytes.Buffer
		require.NoError(t, weights.Write(&text, f))
		return text.Bytes()
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, text := range map[string][]byte{
		"a bit of a number":   flipped,
		"truncated":           whole[:len(whole)/2],
		"empty":               {},
		"no checkpoint":       changed(checkpointKind, "lmserve.something!"),
		"a tensor is missing": changed(`"adam.m"`, `"adam.q"`),
		"another phase": changed(`{\"phase\":\"pretrain\",\"step\"`,
			`{\"phase\":\"pretrans\",\"step\"`),
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

func TestOptionsAreValidated(t *testing.T) {
	data := WriteText(t, 100)
	for field, change := range map[string]func(*Options){
		"Phases":           func(o *Options) { o.Phases = []string{"posttrain"} },
		"Data":             func(o *Options) { o.Data = "" },
		"Init":             func(o *Options) { o.Phases = []string{PhaseMeta} },
		"Dir":              func(o *Options) { o.Resume = true },
		"Threads":          func(o *Options) { o.Threads = -1 },
		"Pretrain.Batch":   func(o *Options) { o.Pretrain.Batch = -1 },
		"Pretrain.Dropout": func(o *Options) { o.Pretrain.Dropout = 1 },
		"Pretrain.Clip":    func(o *Options) { o.Pretrain.Clip = math.Inf(-1) },
		"Pretrain.Warmup": func(o *Options) {
			o.Pretrain.Steps, o.Pretrain.Warmup = 10,
				11
		},
		"Joint.Warmup":         func(o *Options) { o.Joint.Warmup = 1 << 20 },
		"Pretrain.Schedule":    func(o *Options) { o.Pretrain.Schedule = "sine" },
		"Meta.Schedule":        func(o *Options) { o.Meta.Schedule = "sine" },
		"Meta.Scheme":          func(o *Options) { o.Meta.Scheme = "batch" },
		"Meta.Online.PieceMin": func(o *Options) { o.Meta.Online.PieceMin = 1 << 20 },
		"Meta.Window.K":        func(o *Options) { o.Meta.Window.K = 1 },
		"Meta.Window.P":        func(o *Options) { o.Meta.Window.P = 1.5 },
		"Joint.Final":          func(o *Options) { o.Joint.Final = -1 },
		"Validation.Patience":  func(o *Options) { o.Validation.Patience = -1 },
		"CheckpointEvery":      func(o *Options) { o.CheckpointEvery = -3 },
		"Meta.Online.Chunks":   func(o *Options) { o.Meta.Online.Chunks = -2 },
		"Meta.Window.Batch":    func(o *Options) { o.Meta.Window.Batch = 1 << 20 },
		"Pretrain.Segment":     func(o *Options) { o.Pretrain.Segment = 1 << 20 },
		"Meta.Chunk":           func(o *Options) { o.Meta.Chunk = -1 },
		"Meta.Mixture":         func(o *Options) { o.Meta.Mixture = .5 },
		"Meta.CompanionBytes":  func(o *Options) { o.Meta.CompanionBytes = 100_000 },
		"Meta.Companion": func(o *Options) {
			o.Meta.Companion, o.Meta.Scheme = true,
				SchemeWindow
		},
		"Meta.Rate":                 func(o *Options) { o.Meta.Rate = -1 },
		"Pretrain.AttentionDropout": func(o *Options) { o.Pretrain.AttentionDropout = -.1 },
	} {
		o := Options{Data: data}
		require.NoError(t, o.withDefaults().validate())
		change(&o)
		_, err := Run(context.Background(), o)
		var option *OptionError
		require.ErrorAs(t, err, &option, field)
		require.Equal(t, field, option.Field)
		require.ErrorContains(t, err, "option "+field+" is ")
	}
	o := Options{Data: data, Meta: MetaOptions{Settings: sparsemeta.Settings{Gammas: []float32{2},
		Out: 1}}}
	require.ErrorContains(t, o.withDefaults().validate(), "gammas[0]")

	for want, phases := range map[string][]string{
		"Phases is meta again, expected each phase at most once": {PhaseMeta, PhaseMeta},
		"pretrain after joint, expected pretrain as the first":   {PhaseJoint, PhasePretrain},
	} {
		require.ErrorContains(t, Options{Data: data, Init: "m",
			Phases: phases}.withDefaults().validate(), want)
	}
}

// A resumed run ends with the weights of the best validation. They come from the best checkpoint,
// because later steps made the weights worse.
func TestBestWeightsSurvive(t *testing.T) {
	o := TinyPretraining(t)
	// This rate soon makes the steps far too large.
	o.Pretrain.SlowOptions = SlowOptions{Rate: 2, Final: 1, Warmup: 8, Clip: -1}
	o.Valid, o.Validation = WriteText(t, 200), ValidationOptions{Every: 2, Bytes: 100}
	var told recorder
	o.Observer = &told
	requireSameResult(t, o, 9, 11)
	best := 0
	for _, e := range told.events {
		if v, ok := e.(Validated); ok && v.Best {
			best = v.Step
		}
	}
	require.Positive(t, best)
	require.Less(t, best, 9)
}

func TestReportIsAboutTheStoredModel(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init = []string{PhaseMeta}, Pretrained(t)
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

		r, _, err := open(t.Context(), o)
		require.NoError(t, err)
		defer r.x.Close()
		v, err := r.valid.measure(context.Background(), m, nil)
		require.NoError(t, err)
		require.InDelta(t, v.Static, report.Stored.Static, 1e-12)
		require.InDelta(t, *v.Adaptive, *report.Stored.Adaptive, 1e-12)
		require.Contains(t, report.String(), fmt.Sprintf("model %s, %s, written to %s", m.ID(),
			report.Stored, o.Out))
	}
	o.Store = "int8"
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, `option Store is "int8", expected float32, bf16 or f16`)
}

// Further training can use other lengths of segment and memory, because no weight depends on them.
// Other fields of the configuration cannot change, except untie_softmax.
func TestModelContinuesWithOtherLengths(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Init, o.Phases, o.Meta.Steps = Pretrained(t), []string{PhaseMeta}, 1
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
	require.ErrorContains(t, err, "the value of the initial model (only "+
		"lengths and untie_softmax can differ)")
}

// Further training can give the softmax separate tables. The tables begin as copies of the
// embeddings, so the static model is unchanged. Then the softmax's tables can have fast weights.
// Separate tables cannot become shared again.
func TestModelContinuesWithSeparateSoftmaxTables(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Init, o.Phases, o.Meta.Steps = Pretrained(t), []string{PhaseMeta}, 1
	o.Meta.Branches = []string{"softmax"}
	o.Store, o.Out = "float32", filepath.Join(t.TempDir(), "m")
	tied, err := Run(context.Background(), o)
	require.NoError(t, err)
	before, err := model.Load(o.Out)
	require.NoError(t, err)
	o.Model = before.LM.Config
	o.Model.UntieSoftmax = true
	untied, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.InDelta(t, tied.Stored.Static, untied.Stored.Static, 1e-12)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, o.Model, after.LM.Config)
	require.Equal(t, before.LM.UntieSoftmax().W, after.LM.W)
	const table, bias = "crit.out_layers.0.weight", "crit.out_layers.0.bias"
	require.Len(t, before.Learner.Branches, 1)
	require.Equal(t, table, after.Learner.Branches[0].Name)
	require.Equal(t, bias, after.Learner.Branches[1].Name)

	o.Init = o.Out
	o.Out = filepath.Join(t.TempDir(), "m")
	_, err = Run(context.Background(), o)
	require.NoError(t, err, "an untied model stays as it is")
	o.Model.UntieSoftmax = false
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "and untie_softmax can differ)")
}

func TestTrainingOnNeverMakesWorse(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Init, o.Phases, o.HoldOut = Pretrained(t), []string{PhasePretrain, PhaseJoint}, nil
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

// If several validations in a row bring no improvement, a phase ends early, with the best weights.
func TestPatienceEndsAPhase(t *testing.T) {
	o := TinyPretraining(t)
	o.Phases, o.Pretrain.Steps, o.Meta.Steps, o.Meta.Online.Chunks, o.Meta.Branches = nil, 40, 1, 1,
		[]string{"r_w_bias"}
	// This rate soon makes the steps far too large.
	o.Pretrain.SlowOptions = SlowOptions{Rate: .5, Final: 1, Warmup: 8, Clip: -1}
	o.Valid, o.Validation = WriteText(t, 200), ValidationOptions{Every: 2, Bytes: 100, Patience: 3}
	var told recorder
	o.Observer = &told
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	first := report.Phases[0]
	require.Less(t, first.Steps, 40)
	require.Equal(t, first.Best.Step+3*2, first.Steps)
	ended := Ended{Standing{PhasePretrain, first.Steps, 40, first.Tokens, first.Loss}, 3, nil}
	require.Contains(t, told.events, ended)
	require.Len(t, report.Phases, 2, "the next phase follows")
	require.InDelta(t, first.Best.Static, report.Phases[1].Best.Static, 1e-12,
		"from the best weights")
	o.Observer = nil
	requireSameResult(t, o, first.Steps-1, first.Steps)
}

func TestPretrainingStepAllocatesNothing(t *testing.T) {
	r, _, err := open(t.Context(), TinyPretraining(t))
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

func TestSettingsOutliveTraining(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	before, err := model.Load(Pretrained(t))
	require.NoError(t, err)
	rivals := before.Rivals
	rivals.Cache.Theta, before.CompanionBytes = .5, 1<<19
	before.CompanionAlone = true
	before, err = before.WithRivals(rivals)
	require.NoError(t, err)
	dir := t.TempDir()
	o.Init, o.Out, o.Valid = filepath.Join(dir, "before"), filepath.Join(dir, "after"), ValidNone
	require.NoError(t, weights.WriteFile(o.Init, before.File(), weights.WriteOptions{}))
	o.Phases, o.Meta.Steps = []string{PhaseMeta}, 1
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, rivals, after.Rivals)
	require.Equal(t, 1<<19, after.CompanionBytes)
	require.True(t, after.CompanionAlone)
	o.Meta.CompanionBytes = 1 << 18
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
	after, err = model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, 1<<18, after.CompanionBytes)
}
