package train

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/optim"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/weights"
)

func TestPhasesResumeToTheSameBits(t *testing.T) {
	for _, scheme := range []string{SchemeOnline, SchemeWindow} {
		t.Run(scheme, func(t *testing.T) {
			o := TinyMeta(t, scheme)
			requireSameResult(t, o, 2, 4, 7, 9, 11)
			o.Pretrain.Schedule, o.Meta.Schedule, o.Joint.Schedule = optim.ScheduleWSD,
				optim.ScheduleWSD, optim.ScheduleWSD
			requireSameResult(t, o, 7, 10)
		})
	}
}

func TestBesideACompanionARunResumesToTheSameBits(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Pretrain.Companion = .25
	o.Meta.Companion, o.Meta.Mixture = true, .5
	requireSameResult(t, o, 2, 5, 7, 10)
	o.Meta.CompanionAlone = true
	requireSameResult(t, o, 7)
}

func TestOneBankResumesToTheSameBits(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init, o.Valid = []string{PhaseMeta}, Pretrained(t), ValidNone
	o.Meta.Settings = sparsemeta.Settings{Gammas: []float32{.99}, Beta1: .5, Beta2: .5, P: 1,
		Out: .01}
	requireSameResult(t, o, 2)
}

// goldenRuns has, for each scheme, the hash of a run's last checkpoint without its own hash. The
// arithmetic is float32-fma on amd64. If a hash changes, runs interrupted before the change do not
// resume to the same bits.
var goldenRuns = map[string]string{
	SchemeOnline: "234ad09b5769091815a0622c3f6d736b6b93f0f4b3b0db509f05cb9d4352f0d2",
	SchemeWindow: "b4c6f20772289ee86ae3bd6c8a49b9a1eb7132f9a820f9bfae22e4edebcfdc73",
}

func TestRunHasUnchangedBits(t *testing.T) {
	requireGoldenRuns(t, goldenRuns, TinyMeta)
}

func requireGoldenRuns(
	t *testing.T, golden map[string]string, options func(*testing.T, string) Options,
) {
	if (kernel.Arithmetic{}).Numerics() != "float32-fma" || runtime.GOARCH != "amd64" {
		t.Skip("the golden bits are those of another arithmetic")
	}
	for scheme, want := range golden {
		o := options(t, scheme)
		o.Dir = filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), o)
		require.NoError(t, err)
		checkpoint, err := weights.ReadFile(filepath.Join(o.Dir, lastName))
		require.NoError(t, err)
		delete(checkpoint.Metadata, keyHash)
		sum := sha256.New()
		require.NoError(t, weights.Write(sum, checkpoint))
		require.Equal(t, want, fmt.Sprintf("%x", sum.Sum(nil)), scheme)
	}
}

func TestJointFromScratchResumesToTheSameBits(t *testing.T) {
	o := TinyMeta(t, SchemeWindow)
	o.Phases = []string{PhaseJoint}
	requireSameResult(t, o, 1, 3)
}

// Fast weights improve the score of the validation text, which includes a domain that pretraining
// has not seen.
func TestOnlineMetaTrainingPays(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init = []string{PhaseMeta}, Pretrained(t)
	o.Meta.Steps, o.Meta.Online = 25, OnlineOptions{PieceMin: 400, PieceMax: 800}
	o.Validation = ValidationOptions{Bytes: 300, OneStream: true}
	o.Out = filepath.Join(t.TempDir(), "model.safetensors.zst")
	report, err := Run(context.Background(), o)
	require.NoError(t, err)
	best := report.Phases[0].Best
	require.Less(t, *best.Adaptive, best.Static-.05, best)

	before, err := model.Load(o.Init)
	require.NoError(t, err)
	after, err := model.Load(o.Out)
	require.NoError(t, err)
	require.Equal(t, before.LM.W, after.LM.W)
	require.Equal(t, sparsemeta.TwoBankSettings(), after.Learner.Settings)
	require.Equal(t, 16, after.Chunk)
	require.Equal(t, "tiny", after.Name)
	var c card
	require.NoError(t, json.Unmarshal(after.Card, &c))
	require.Equal(t, before.Hash(), c.Recipe.Init)
	require.Equal(t, report.Phases, c.Results)
}

// Online training scores and adapts exactly as a session does. To make the results comparable, the
// test uses a learning rate near zero, and the 16-bit state of a session.
func TestOnlineIsServing(t *testing.T) {
	onlineIsServing(t, func(*MetaOptions) {})
	for _, share := range []float32{0, .4, 1} {
		for _, alone := range []bool{false, true} {
			onlineIsServing(t, func(o *MetaOptions) {
				o.Companion, o.Mixture, o.CompanionAlone = true, share, alone
			})
		}
	}
}

func onlineIsServing(t *testing.T, change func(*MetaOptions)) {
	o := TinyMeta(t, SchemeOnline)
	o.Meta.Rate, o.Meta.Online.Reset = 1e-30, -1
	change(&o.Meta)
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	ph, err := r.newPhase(PhaseMeta)
	require.NoError(t, err)
	p := ph.(*onlineScheme)
	defer p.close()

	m, err := r.model(p.learner())
	require.NoError(t, err)
	set := stream.Defaults(m)
	set.Seed, set.Companion = kernel.Key(o.Seed, useMasks), o.Meta.Companion
	s, w := stream.New(m, set), stream.NewWorker(m, 1)
	defer w.Close()
	p.text.Precision = stream.ServingPrecision
	p.text.State = p.text.NewState(set.Seed)
	served := make([]float32, m.ArenaSize())
	for range 4 {
		var text []byte
		var loss float64
		p.meta.begin()
		for range p.options.Online.Chunks {
			loss += p.chunk(0) / float64(p.options.Online.Chunks)
			// Before the first update of the fast weights, the loss has no gradient for the
			// meta-learners.
			if p.text.State.Step == 1 {
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
		// The tables of training and serving differ by rounding, because gorgonia computes the
		// tables of training.
		require.InDelta(t, (s.Tally.Bits-before)/float64(len(text)), loss*BitsPerNat, 1e-5)
		s.Fast.Sum(w.Exec.Vectors, served)
		require.InDeltaSlice(t, served, p.text.Fast.Values, 1e-7)
		require.Equal(t, s.Fast.Step, p.text.State.Step)
	}
}

func newPhaseOf(t *testing.T, o Options, name string) stepper {
	t.Helper()
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(r.x.Close)
	p, err := r.newPhase(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	return p
}

func TestWindowStep(t *testing.T) {
	for _, name := range []string{PhaseMeta, PhaseJoint} {
		p := newPhaseOf(t, TinyMeta(t, SchemeWindow), name).(*windowScheme)
		slow, phi := slices.Clone(p.lm.W), p.learner().Phi[0][0]
		o, err := p.step()
		require.NoError(t, err)
		require.Equal(t, 2*(2*16+24), o.Tokens)
		require.InDelta(t, math.Log(256), o.Loss, .5)
		require.Equal(t, name == PhaseMeta, slices.Equal(slow, p.lm.W), name)
		require.NotEqual(t, phi, p.learner().Phi[0][0])
		for _, arena := range [][]float32{p.writing.State.I[0].F32, p.writing.State.M[0].F32,
			p.writing.Fast.Values} {
			require.Equal(t, make([]float32, len(arena)), arena)
		}
		require.EqualValues(t, 2, p.writing.State.Step)
		require.Equal(t, tinyModel.MemLen, p.writing.Memory.Len)
	}
}

// In a joint phase of windows, one backward pass serves slow weights and meta-learners. The
// gradient of the meta-learners follows from the gradient of the slow weights, at the elements that
// updates have written.
func TestWindowSharesOneBackward(t *testing.T) {
	p := newPhaseOf(t, TinyMeta(t, SchemeWindow), PhaseJoint).(*windowScheme)
	var o Outcome
	p.writeFast(&o)
	p.learn(&o)
	sum, want := 0.0, 0.0
	// The gradient of each written element, times Settings.Out, is divided between two neighboring
	// nodes of a table. So the sum over the nodes equals the sum over the written elements.
	for _, branch := range p.meta.sums[0] {
		for _, v := range branch {
			sum += v
		}
	}
	at, written := 0, 0
	for _, b := range p.learner().Branches {
		t := p.lm.Layout.Index(b.Name)
		for _, g := range p.slow.grads.Views[t] {
			if x := p.writing.State.X[0][at]; x == x {
				want += float64(g) * float64(p.writing.Settings.Out)
				written++
			}
			at++
		}
	}
	// two updates, each of which writes an element with probability .3
	require.Greater(t, written, at/3)
	require.InDelta(t, want, sum, 1e-9)
}

func TestJointOnlineStep(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Joint.Dropout, o.Joint.Clip, o.Meta.Online.Reset = 0, -1, -1
	p := newPhaseOf(t, o, PhaseJoint).(*onlineScheme)
	q := newPhaseOf(t, o, PhaseJoint).(*onlineScheme)
	for i := range 3 {
		out, err := p.step()
		require.NoError(t, err)

		q.meta.begin()
		mean := make([]float64, len(q.lm.W))
		loss, chunks := 0.0, q.options.Online.Chunks
		for range chunks {
			q.pieces.Next(q.text.inputs, q.text.targets)
			loss += q.text.forward() / float64(chunks)
			grads := make([]float32, len(q.lm.W))
			views := q.lm.Layout.Slices(grads)
			q.text.Segment.Backward(q.x, q.text.targets, views)
			q.text.Segment.Remember(q.text.Memory)
			var arena []float32
			for _, b := range q.learner().Branches {
				arena = append(arena, views[q.lm.Layout.Index(b.Name)]...)
			}
			q.text.State.NodeGradient(q.x, q.meta.tables(), q.options.Settings.Out, arena, 1,
				q.meta.sums)
			q.text.State.Update(q.x, q.meta.tables(), q.options.Settings, nil, arena,
				q.text.Fast.Values)
			for k, g := range grads {
				mean[k] += float64(g) / float64(chunks)
			}
		}
		for k, g := range mean {
			q.slow.grads.Values[k] = float32(g)
		}
		rate, norm := q.slow.step(q.x, i)
		_, err = q.meta.step(i)
		require.NoError(t, err)

		require.Equal(t, rate, out.SlowRate)
		require.InDelta(t, loss, out.Loss, 1e-6)
		require.InEpsilon(t, norm, out.Norm, 1e-5)
		// Adam divides by the size of the gradient, which enlarges rounding errors.
		require.InDeltaSlice(t, q.lm.W, p.lm.W, 2e-6)
		require.InDeltaSlice(t, q.text.Fast.Values, p.text.Fast.Values, 1e-6)
		for b, n := range p.learner().Phi[1] {
			require.InDeltaSlice(t, q.learner().Phi[1][b][:], n[:], 1e-4)
		}
	}
}

// The test compares the gradient with a central difference of the loss, along the gradient of all
// slow weights. The fast weights are not zero.
func TestJointGradientAgainstFiniteDifferences(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Joint.Dropout, o.Joint.Rate, o.Meta.Rate, o.Meta.Online.Chunks = 0, 1e-30, 1e-30, 1
	p := newPhaseOf(t, o, PhaseJoint).(*onlineScheme)
	for range 4 { // fills the memory and the fast weights
		_, err := p.step()
		require.NoError(t, err)
	}
	p.pieces.Next(p.text.inputs, p.text.targets)
	loss := p.text.forward
	loss()
	p.text.Backward(p.text.targets)
	squares := 0.0
	for _, g := range p.text.All.Values {
		squares += float64(g) * float64(g)
	}
	norm := math.Sqrt(squares)
	w, h := slices.Clone(p.lm.W), 1e-2
	moved := func(sign float64) float64 {
		for k, g := range p.text.All.Values {
			p.lm.W[k] = w[k] + float32(sign*h*float64(g)/norm)
		}
		return loss()
	}
	require.InEpsilon(t, norm, (moved(1)-moved(-1))/(2*h), 2e-3)
}

// After the first steps, steps with meta-learners allocate nothing, except in gorgonia.
func TestMetaStepsAllocateNothing(t *testing.T) {
	beside := false
	warm := func(scheme, name string) stepper {
		o := TinyMeta(t, scheme)
		if o.Meta.Companion = beside && scheme == SchemeOnline; o.Meta.Companion {
			o.Meta.Mixture = .5
		}
		p := newPhaseOf(t, o, name)
		for range 3 {
			_, err := p.step()
			require.NoError(t, err)
		}
		return p
	}
	for _, name := range []string{PhaseMeta, PhaseJoint} {
		online := warm(SchemeOnline, name).(*onlineScheme)
		require.Zero(t, testing.AllocsPerRun(5, func() {
			online.meta.begin()
			online.chunk(0)
			online.meta.norm()
			if online.slow != nil {
				online.slow.step(online.x, 0)
			}
		}), name)
		beside = true
		window := warm(SchemeWindow, name).(*windowScheme)
		require.Zero(t, testing.AllocsPerRun(5, func() {
			var o Outcome
			window.writeFast(&o)
			window.learn(&o)
			if window.slow != nil {
				window.slow.step(window.x, 0)
			}
			window.writing.reset()
		}), name)
	}
}

func TestUnknownBranchesAreNamed(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Meta.Branches = []string{"layers.9.*"}
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "Meta.Branches")
	require.ErrorContains(t, err, "layers.9.*")
}

func TestHeldOutTextIsNotPretrainedOn(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	r, _, err := open(t.Context(), o)
	require.NoError(t, err)
	defer r.x.Close()
	p, err := r.newPhase(PhasePretrain)
	require.NoError(t, err)
	for _, d := range r.seen.Documents {
		require.NotEqual(t, "domain3", d.Domain)
	}
	require.Equal(t, r.seen.Bytes(), p.(*pretraining).tokens)
}

func TestMetaLearnersContinue(t *testing.T) {
	first := TinyMeta(t, SchemeOnline)
	first.Phases, first.Init, first.Valid = []string{PhaseMeta}, Pretrained(t), ValidNone
	first.Meta.Settings = sparsemeta.Settings{Gammas: []float32{.9, .99, .999}, P: .25}
	first.Out = filepath.Join(t.TempDir(), "meta.safetensors")
	_, err := Run(context.Background(), first)
	require.NoError(t, err)
	before, err := model.Load(first.Out)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		change func(*Options)
		says   string
		goesOn bool
	}{
		"nothing asked": {func(o *Options) {}, learnerTrained, true},
		"its branches": {func(o *Options) {
			o.Meta.Branches = []string{"*.o_net.weight",
				"word_emb.*"}
		}, learnerTrained, true},
		"as many banks": {func(o *Options) {
			o.Meta.Settings.Gammas = []float32{.8, .98,
				.998}
		}, learnerTrained, true},
		"other p": {func(o *Options) { o.Meta.Settings.P = .75 }, learnerTrained,
			true},
		"joint": {func(o *Options) { o.Phases = []string{PhaseJoint} },
			learnerTrained, true},
		"windows": {func(o *Options) { o.Meta.Scheme = SchemeWindow },
			learnerTrained, true},
		"other branches": {func(o *Options) { o.Meta.Branches = []string{"word_emb.*"} },
			learnerRenewed, false},
		"other banks": {func(o *Options) { o.Meta.Settings.Gammas = []float32{.99} },
			learnerRenewed, false},
		"after pretraining": {func(o *Options) { o.Phases = nil }, learnerTrained, true},
		"pretraining alone": {func(o *Options) { o.Phases = []string{PhasePretrain} },
			learnerKept, true},
		"others after pretraining": {func(o *Options) {
			o.Phases, o.Meta.Branches = nil,
				[]string{"word_emb.*"}
		}, learnerRenewed, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := TinyMeta(t, SchemeOnline)
			o.Phases, o.Init, o.Valid, o.Pretrain.Steps, o.Meta.Steps,
				o.Joint.Steps = []string{PhaseMeta}, first.Out, ValidNone, 1, 1, 1
			o.Meta.Branches, o.Meta.Chunk, o.Meta.Rate, o.Name, o.Pretrain.Warmup = nil, 0, 1e-30,
				"", -1
			var told recorder
			o.Observer, o.Out = &told, filepath.Join(t.TempDir(), "out")
			c.change(&o)
			_, err := Run(context.Background(), o)
			require.NoError(t, err)
			require.Contains(t, told.notes(), "meta-learners of "+first.Out+" "+c.says)
			after, err := model.Load(o.Out)
			require.NoError(t, err)
			same := len(after.Learner.Phi) == 3 && len(after.Learner.Branches) == 2 &&
				after.Learner.Phi[2][1] == before.Learner.Phi[2][1]
			require.Equal(t, c.goesOn, same)
			if c.goesOn {
				require.Equal(t, before.Chunk, after.Chunk)
				require.Equal(t, before.Learner.Settings.Out, after.Learner.Settings.Out)
			}
			want := before.Learner.Settings
			switch name {
			case "as many banks":
				want.Gammas = []float32{.8, .98, .998}
			case "other p":
				want.P = .75
			}
			if c.goesOn {
				require.Equal(t, want, after.Learner.Settings)
			}
		})
	}
}

// Only the card says that these meta-learners learned with a companion.
func TestMetaLearnersKeepTheirCompanion(t *testing.T) {
	o := TinyMeta(t, SchemeOnline)
	o.Phases, o.Init, o.Pretrain.Steps, o.Meta.Steps = []string{PhaseMeta}, Pretrained(t), 1, 1
	o.Pretrain.Warmup, o.Joint.Steps = -1, 1
	dir := t.TempDir()
	made := func(name string, change func(*Options)) Report {
		o := o
		change(&o)
		o.Out = filepath.Join(dir, name)
		report, err := Run(context.Background(), o)
		require.NoError(t, err)
		return report
	}
	from := func(name string, phases ...string) func(*Options) {
		return func(o *Options) {
			o.Init, o.Phases, o.Meta.Branches = filepath.Join(dir, name), phases, nil
		}
	}
	require.False(t, made("without", func(*Options) {}).Stored.Companion)
	require.True(t, made("with", func(o *Options) { o.Meta.Companion = true }).Stored.Companion)
	require.True(t, made("again", from("with", PhaseMeta)).Phases[0].Best.Companion)
	require.False(t, made("slow", from("with", PhasePretrain)).Phases[0].Best.Companion)
	require.True(t, made("after", from("slow", PhaseJoint)).Phases[0].Best.Companion)
	require.False(t, made("others", func(o *Options) {
		from("with", PhaseMeta)(o)
		o.Meta.Branches = []string{"word_emb.*"}
	}).Stored.Companion)

	window := o
	from("with", PhaseMeta)(&window)
	window.Meta.Scheme = SchemeWindow
	_, err := Run(context.Background(), window)
	require.ErrorContains(t, err, "option Meta.Scheme is window, expected online, because the "+
		"initial model's meta-learners learned with a companion")

	made("half", func(o *Options) { o.Meta.Companion, o.Meta.Mixture = true, .5 })
	for _, asked := range []bool{false, true} {
		made("more", func(o *Options) {
			from("half", PhaseMeta)(o)
			o.Meta.Companion = asked
		})
		after, err := model.Load(filepath.Join(dir, "more"))
		require.NoError(t, err)
		require.EqualValues(t, .5, after.Mixture)
	}
}
