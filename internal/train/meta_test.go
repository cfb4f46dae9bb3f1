package train

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/sparsemeta"
)

// metaOptions meta-trains the tiny model, pretrained for a moment, for a few steps.
func metaOptions(t *testing.T, scheme string) Options {
	o := pretrainOptions(t)
	o.Phase = PhaseBoth
	o.HoldOut = []string{"domain3"}
	o.Pretrain.Steps = 4
	o.Meta = MetaOptions{
		Scheme: scheme, Steps: 4, Chunk: 16, Branches: []string{"word_emb.*", "*.o_net.weight"}, // few: gorgonia is slow under the race detector
		Online: OnlineOptions{Chunks: 2, Reset: .5, PieceMin: 40, PieceMax: 120},
		Window: WindowOptions{K: 3, GradientChunk: 24, Batch: 2, P: .3, SlowOptions: SlowOptions{Dropout: .1}},
	}
	o.Valid, o.Validation = writeText(t, 200), ValidationOptions{Every: 2, Bytes: 60}
	return o
}

func TestOnlineResumesToTheSameBits(t *testing.T) {
	requireSameResult(t, metaOptions(t, SchemeOnline), 2, 4) // in pretraining, and between the phases

	meta := metaOptions(t, SchemeOnline)
	meta.Phase, meta.From = PhaseMeta, pretrained(t)
	t.Run("meta-phase", func(t *testing.T) { requireSameResult(t, meta, 1, 3) })
	one := meta
	one.Meta.Settings = sparsemeta.Settings{Gammas: []float32{.99}, Beta1: .5, Beta2: .5, P: 1, Out: .01}
	one.Valid = ""
	t.Run("one bank", func(t *testing.T) { requireSameResult(t, one, 2) })
}

func TestWindowResumesToTheSameBits(t *testing.T) {
	o := metaOptions(t, SchemeWindow)
	o.Phase = PhaseMeta // from scratch: the paper trains slow weights and meta-learners together
	requireSameResult(t, o, 1, 3)
}

// pretrained makes the file of a tiny model that knows the first three domains a little.
func pretrained(t *testing.T) string {
	o := pretrainOptions(t)
	o.Pretrain.Steps, o.HoldOut = 40, []string{"domain3"}
	o.Pretrain.Rate = 1e-2
	o.Out = filepath.Join(t.TempDir(), "static.safetensors")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	return o.Out
}

// After the online phase the model adapts: on the whole of the validation text, a domain that pretraining never saw among it, adaptive
// bpc is below static. The slow weights stood still.
func TestOnlineMetaTrainingPays(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Phase, o.From = PhaseMeta, pretrained(t)
	o.Meta.Steps, o.Meta.Online = 25, OnlineOptions{PieceMin: 400, PieceMax: 800}
	o.Validation = ValidationOptions{Bytes: 300, OneStream: true}
	o.Out = filepath.Join(t.TempDir(), "model.safetensors.zst")
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	best := report.Phases[0].Best
	require.Less(t, *best.Adaptive, best.Static-.05, best)

	before, err := model.Load(o.From)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, before.LM.W, after.LM.W)
	require.Equal(t, sparsemeta.TwoBankSettings(), after.Learner.Settings)
	require.Equal(t, 16, after.Chunk)
	require.Equal(t, "tiny", after.Name)
	var c card
	require.NoError(t, json.Unmarshal(after.Card, &c))
	require.Equal(t, before.Hash(), c.Recipe.From)
	require.Equal(t, report.Phases, c.Results)
}

// In the online phase a stream is scored and adapted to exactly as a session would be: with meta-learners that (almost) stand still, loss
// and fast weights are those of a stream fed the same bytes.
func TestOnlineIsServing(t *testing.T) {
	o := metaOptions(t, SchemeOnline).withDefaults()
	o.Meta.Rate, o.Meta.Online.Reset = 1e-30, -1
	r, _, err := open(o)
	require.NoError(t, err)
	defer r.x.Close()
	ph, err := r.newPhase(PhaseMeta)
	require.NoError(t, err)
	p := ph.(*online)
	defer p.close()

	m, err := r.model(p.learner(), nil)
	require.NoError(t, err)
	set := stream.Defaults(m)
	set.Seed = kernel.Key(o.Seed, useMasks)
	s, w := stream.New(m, set), stream.NewWorker(m, 1)
	defer w.Close()
	for range 4 {
		var text []byte
		var loss float64
		p.meta.begin()
		for range p.options.Online.Chunks {
			loss += p.chunk() / float64(p.options.Online.Chunks)
			if p.fast.state.Step == 1 { // its loss came before any write: it has no gradient for the meta-learners
				require.Zero(t, p.meta.norm())
			}
			for _, id := range p.text.targets {
				text = append(text, byte(id))
			}
		}
		_, err := p.meta.step(p.steps)
		require.NoError(t, err)
		before := s.Tally.Bits
		w.Feed(s, text, nil)
		// The tables differ by rounding: those of training come from gorgonia's graph.
		require.InDelta(t, (s.Tally.Bits-before)/float64(len(text)), loss*bitsPerNat, 1e-5)
		require.InDeltaSlice(t, s.Fast.Sum, p.fast.state.Sum, 1e-7)
		require.Equal(t, s.Fast.Step, p.fast.state.Step)
	}
}

// A window moves slow weights and meta-learners, leaves M and I at zero and keeps the memory.
func TestWindowStep(t *testing.T) {
	r, _, err := open(metaOptions(t, SchemeWindow).withDefaults())
	require.NoError(t, err)
	defer r.x.Close()
	ph, err := r.newPhase(PhaseMeta)
	require.NoError(t, err)
	p := ph.(*window)
	defer p.close()
	slow, phi := slices.Clone(p.lm.W), p.learner().Phi[0][0]
	o, err := p.step()
	require.NoError(t, err)
	require.Equal(t, 2*(2*16+24), o.tokens)
	require.InDelta(t, math.Log(256), o.loss, .5)
	require.NotEqual(t, slow, p.lm.W)
	require.NotEqual(t, phi, p.learner().Phi[0][0])
	for _, arena := range [][]float32{p.fast.state.I[0], p.fast.state.M[0]} {
		require.Equal(t, make([]float32, len(arena)), arena)
	}
	require.EqualValues(t, 2, p.fast.state.Step)
	require.Equal(t, tinyModel.MemLen, p.mem.Len)
}

// The gradient that the window hands to the meta-learners is taken at the weights before the slow step, from entries of the last writes:
// it is what the branches' part of the slow gradient says of them.
func TestWindowSharesOneBackward(t *testing.T) {
	r, _, err := open(metaOptions(t, SchemeWindow).withDefaults())
	require.NoError(t, err)
	defer r.x.Close()
	ph, err := r.newPhase(PhaseMeta)
	require.NoError(t, err)
	p := ph.(*window)
	defer p.close()
	var o outcome
	p.write(&o)
	p.learn(&o)
	sum, want := 0.0, 0.0
	for _, branch := range p.meta.sums[0] { // a node's sum and its neighbour's add up to G of the entries between them
		for _, v := range branch {
			sum += v
		}
	}
	at, written := 0, 0
	for _, b := range p.learner().Branches {
		t := p.lm.Layout.Index(b.Name)
		for _, g := range p.slow.views[t] {
			if x := p.fast.state.X[0][at]; x == x {
				want += float64(g) * float64(p.settings.Out)
				written++
			}
			at++
		}
	}
	require.Greater(t, written, at/3) // two writes with p = .3
	require.InDelta(t, want, sum, 1e-9)
}

func TestWindowLearns(t *testing.T) {
	o := metaOptions(t, SchemeWindow)
	o.Phase, o.Valid = PhaseMeta, ""
	o.Meta.Steps, o.LogEvery = 40, 8
	o.Meta.Window.SlowOptions, o.Meta.Window.Batch = SlowOptions{Rate: 1e-2, Warmup: 5, Clip: 1}, 6
	o.Metrics = filepath.Join(t.TempDir(), "m")
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	lines := readMetrics(t, o.Metrics)
	first, last := lines[1], lines[len(lines)-2]
	require.Equal(t, "step", first.Event)
	require.Equal(t, "step", last.Event)
	require.Less(t, last.Loss, first.Loss-1)
}

// Outside gorgonia, warm steps of the meta-phase allocate nothing.
func TestMetaStepsAllocateNothing(t *testing.T) {
	newPhase := func(scheme string) phase {
		r, _, err := open(metaOptions(t, scheme).withDefaults())
		require.NoError(t, err)
		t.Cleanup(r.x.Close)
		p, err := r.newPhase(PhaseMeta)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.close()) })
		for range 3 {
			_, err := p.step()
			require.NoError(t, err)
		}
		return p
	}
	online := newPhase(SchemeOnline).(*online)
	require.Zero(t, testing.AllocsPerRun(5, func() {
		online.meta.begin()
		online.chunk()
		online.meta.norm()
	}))
	window := newPhase(SchemeWindow).(*window)
	require.Zero(t, testing.AllocsPerRun(5, func() {
		var o outcome
		window.write(&o)
		window.learn(&o)
		window.slow.step(window.x, 0)
		window.fast.state.Reset()
	}))
}

func TestUnknownBranchesAreNamed(t *testing.T) {
	o := metaOptions(t, SchemeOnline)
	o.Meta.Branches = []string{"layers.9.*"}
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "Meta.Branches")
	require.ErrorContains(t, err, "layers.9.*")
}

// A text that is pretrained on and one that is not: held-out text has no part in pretraining.
func TestHeldOutTextIsNotPretrainedOn(t *testing.T) {
	o := metaOptions(t, SchemeOnline).withDefaults()
	r, _, err := open(o)
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	for _, d := range p.(*pretrain).reader.docs {
		require.NotEqual(t, "domain3", d.Domain)
	}
}
