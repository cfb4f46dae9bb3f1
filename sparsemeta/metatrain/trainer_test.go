package metatrain

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/sparsemeta"
)

func testLearner(seed uint64) *sparsemeta.Learner {
	l := &sparsemeta.Learner{
		Branches: []sparsemeta.Branch{{Name: "a", Size: 10}, {Name: "b", Size: 20}},
		Settings: sparsemeta.TwoBankSettings(),
	}
	l.Init(sparsemeta.InitHe(), seed)
	return l
}

func newTrainer(t testing.TB, l *sparsemeta.Learner, o Options) *Trainer {
	trainer, err := New(l, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trainer.Close()) })
	return trainer
}

func waves(t *Trainer, seed int) sparsemeta.NodeGradients {
	dv := t.Tables().Gradients(nil)
	for bank := range dv {
		for branch := range dv[bank] {
			for node := range dv[bank][branch] {
				dv[bank][branch][node] = math.Sin(float64(1 + seed + 7*bank + 13*branch +
					node*node))
			}
		}
	}
	return dv
}

func nodeInput(table *sparsemeta.Table, node int) float64 {
	magnitude, sign := table.Node(node)
	if magnitude == -1 {
		return sign * math.Exp(-7)
	}
	return sign * math.Exp(7*magnitude)
}

func manyNodes(t testing.TB) *sparsemeta.Learner {
	l := testLearner(784)
	require.Greater(t, len(l.Compile()[1][0].Values()), width)
	return l
}

// The graph and Network.Eval both compute in float64, so their results differ only by the rounding
// of about 500 operations.
func TestGraphComputesTheTablesValues(t *testing.T) {
	l := manyNodes(t)
	compiled := l.Compile()
	trainer := newTrainer(t, l, Options{Workers: 2})
	for bank, tables := range trainer.Tables() {
		for branch, table := range tables {
			require.Len(t, table.Values(), len(compiled[bank][branch].Values()))
			for node, v := range table.Values() {
				want := l.Phi[bank][branch].Eval(nodeInput(table, node))
				require.InDelta(t, want, v, 1e-12*(1+math.Abs(want)))
			}
			for _, x := range []float32{0, 1e-5, -3e-4, 0.002, -0.7, 12} {
				require.InDelta(t, compiled[bank][branch].At(x), table.At(x), 1e-7)
			}
		}
	}
}

func TestAutodiffAgreesWithTheHandWrittenBackward(t *testing.T) {
	l := manyNodes(t)
	trainer := newTrainer(t, l, Options{Workers: 2})
	for seed := range 2 {
		dv := waves(trainer, seed)
		got, err := trainer.Gradient(dv)
		require.NoError(t, err)
		for bank := range dv {
			for branch := range dv[bank] {
				var want [sparsemeta.NetworkSize]float64
				for node, d := range dv[bank][branch] {
					l.Phi[bank][branch].Backward(nodeInput(trainer.Tables()[bank][branch], node), d,
						&want)
				}
				for i, w := range want {
					require.InDelta(t, w, got[bank][branch][i], 1e-6*(1+math.Abs(w)),
						"bank %d branch %d weight %d", bank, branch, i)
				}
			}
		}
	}
}

type adam struct{ mean, variance float64 }

func (a *adam) step(w *float32, g, lr, beta1, beta2 float64, t int) {
	a.mean = beta1*a.mean + (1-beta1)*g
	a.variance = beta2*a.variance + (1-beta2)*g*g
	m := a.mean / (1 - math.Pow(beta1, float64(t)))
	v := a.variance / (1 - math.Pow(beta2, float64(t)))
	*w = float32(float64(*w) - lr*m/(math.Sqrt(v)+1e-8))
}

func TestStepsAreAdams(t *testing.T) {
	for _, o := range []Options{{}, {Beta1: 0.8, Beta2: 0.95}} {
		beta1, beta2 := o.withDefaults().Beta1, o.withDefaults().Beta2
		l := testLearner(3)
		trainer := newTrainer(t, l, o)
		want := testLearner(3).Phi
		moments := make([]adam, 4*sparsemeta.NetworkSize)
		for step := 1; step <= 3; step++ {
			lr := 3e-3 / float64(step)
			dv := waves(trainer, step)
			grad, err := trainer.Gradient(dv)
			require.NoError(t, err)
			require.NoError(t, trainer.Step(dv, lr))
			k := 0
			for bank := range want {
				for branch := range want[bank] {
					for i := range want[bank][branch] {
						w := &want[bank][branch][i]
						moments[k].step(w, float64(grad[bank][branch][i]), lr, beta1, beta2, step)
						require.InDelta(t, *w, l.Phi[bank][branch][i], 1e-6)
						*w = l.Phi[bank][branch][i]
						k++
					}
				}
			}
		}
	}
}

func TestStepRenewsTheTables(t *testing.T) {
	l := testLearner(3)
	trainer := newTrainer(t, l, Options{})
	require.NoError(t, trainer.Step(waves(trainer, 1), 0.1))
	for bank, tables := range trainer.Tables() {
		for branch, table := range tables {
			want := sparsemeta.Compile(&l.Phi[bank][branch])
			require.InDeltaSlice(t, want.Values(), table.Values(), 1e-12)
			require.InDelta(t, want.At(1e-3), table.At(1e-3), 1e-7)
		}
	}
}

func TestResultsDoNotDependOnWorkers(t *testing.T) {
	run := func(workers int) *sparsemeta.Learner {
		l := testLearner(4)
		trainer := newTrainer(t, l, Options{Workers: workers})
		for step := range 2 {
			require.NoError(t, trainer.Step(waves(trainer, step), 1e-2))
		}
		return l
	}
	want := run(1).Phi
	require.Equal(t, want, run(2).Phi)
	require.Equal(t, want, run(3).Phi)
}

func TestTrainingResumesToTheSameBits(t *testing.T) {
	steps := func(trainer *Trainer, from, to int) {
		for step := from; step < to; step++ {
			require.NoError(t, trainer.Step(waves(trainer, step), 3e-3))
		}
	}
	for _, saved := range []int{0, 2} {
		straight := testLearner(5)
		whole := newTrainer(t, straight, Options{Workers: 2})
		steps(whole, 0, 4)

		broken := testLearner(5)
		first := newTrainer(t, broken, Options{})
		steps(first, 0, saved)
		state := first.State()
		require.Equal(t, saved, state.Iteration)
		resumed := &sparsemeta.Learner{Branches: broken.Branches, Settings: broken.Settings}
		for _, bank := range broken.Phi {
			resumed.Phi = append(resumed.Phi, append([]sparsemeta.Network(nil), bank...))
		}
		// State returned a copy, so these steps must not change the saved state.
		steps(first, saved, 4)
		second := newTrainer(t, resumed, Options{Workers: 1})
		require.NoError(t, second.Restore(state))
		steps(second, saved, 4)

		require.Equal(t, straight.Phi, broken.Phi)
		require.Equal(t, straight.Phi, resumed.Phi)
		require.Equal(t, whole.State(), second.State())
	}
}

// If training loses Adam's moments, the weights change. So TestTrainingResumesToTheSameBits would
// detect lost moments.
func TestForgettingTheMomentsShows(t *testing.T) {
	straight, forgetful := testLearner(5), testLearner(5)
	a, b := newTrainer(t, straight, Options{}), newTrainer(t, forgetful, Options{})
	for step := range 3 {
		require.NoError(t, a.Step(waves(a, step), 3e-3))
		require.NoError(t, b.Step(waves(b, step), 3e-3))
		require.NoError(t, b.Restore(SolverState{}))
	}
	require.NotEqual(t, straight.Phi, forgetful.Phi)
}

// TestAdamKeepsItsState guards adamstate.go, which accesses unexported fields of gorgonia's solver,
// against changes in gorgonia. After one step, the moments depend only on the first gradient.
func TestAdamKeepsItsState(t *testing.T) {
	trainer := newTrainer(t, testLearner(6), Options{Beta1: 0.9, Beta2: 0.99})
	require.Equal(t, SolverState{}, trainer.State())
	dv := waves(trainer, 1)
	grad, err := trainer.Gradient(dv)
	require.NoError(t, err)
	require.NoError(t, trainer.Step(dv, 1e-3))
	s := trainer.State()
	require.Equal(t, 1, s.Iteration)
	const size = sparsemeta.NetworkSize
	require.Len(t, s.Mean, 4*size)
	require.Len(t, s.Variance, 4*size)
	for i := range s.Mean {
		g := float64(grad[i/(2*size)][i/size%2][i%size])
		require.InDelta(t, 0.1*g, s.Mean[i], 1e-6*math.Abs(g))
		require.InDelta(t, 0.01*g*g, s.Variance[i], 1e-6*g*g)
	}
}

func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	trainer := newTrainer(t, testLearner(6), Options{})
	require.NoError(t, trainer.Step(waves(trainer, 1), 1e-3))
	before := trainer.State()
	for want, change := range map[string]func(*SolverState){
		"found 1 means":     func(s *SolverState) { s.Mean = s.Mean[:1] },
		"after 0 steps":     func(s *SolverState) { s.Iteration = 0 },
		"after -1 steps":    func(s *SolverState) { s.Iteration = -1 },
		"weight 2: found m": func(s *SolverState) { s.Mean[2] = math.NaN() },
		"weight 3: found m": func(s *SolverState) { s.Variance[3] = -1 },
	} {
		s := trainer.State()
		change(&s)
		require.ErrorContains(t, trainer.Restore(s), want)
		require.Equal(t, before, trainer.State())
	}
}

func TestBadGradientsChangeNothing(t *testing.T) {
	l := testLearner(7)
	trainer := newTrainer(t, l, Options{})
	require.NoError(t, trainer.Step(waves(trainer, 1), 1e-3))
	state, phi := trainer.State(), testLearner(7).Phi
	for bank := range phi {
		copy(phi[bank], l.Phi[bank])
	}
	type gradients = sparsemeta.NodeGradients
	refused := func(want string, lr float64, change func(gradients) gradients) {
		require.ErrorContains(t, trainer.Step(change(waves(trainer, 2)), lr), want)
		require.Equal(t, phi, l.Phi)
		require.Equal(t, state, trainer.State())
	}
	refused("metatrain: bank 1: b: gradient of w1[0]: found NaN", 1e-3, func(dv gradients) gradients {
		dv[1][1][3] = math.NaN()
		return dv
	})
	refused("bank 0, branch 1: found 1 nodes", 1e-3, func(dv gradients) gradients {
		dv[0][1] = dv[0][1][:1]
		return dv
	})
	refused("found 1 banks, want 2", 1e-3, func(dv gradients) gradients { return dv[:1] })
	refused("learning rate: found -1", -1, func(dv gradients) gradients { return dv })
	require.NoError(t, trainer.Step(waves(trainer, 2), 1e-3), "and it goes on")
}

func TestOptionsErrorsNameTheField(t *testing.T) {
	for want, o := range map[string]Options{
		"Beta1: found 1": {Beta1: 1}, "Beta2: found -1": {Beta2: -1}, "Eps: found -1": {Eps: -1},
		"Workers: found -1": {Workers: -1},
	} {
		_, err := New(testLearner(1), o)
		require.ErrorContains(t, err, want)
	}
	broken := testLearner(1)
	broken.Phi[0][1][0] = float32(math.NaN())
	_, err := New(broken, Options{})
	require.ErrorContains(t, err, "bank 0: b: w1[0]: found NaN")
}

// Trainer, graph and tables together fit a tanh, a shape that is typical of trained meta-learners.
func TestTrainingFitsATarget(t *testing.T) {
	l := testLearner(8)
	l.Branches, l.Settings.Gammas = l.Branches[:1], l.Settings.Gammas[:1]
	l.Init(sparsemeta.InitHe(), 8)
	trainer := newTrainer(t, l, Options{})
	table := trainer.Tables()[0][0]
	inputs := []float32{}
	for e := -9.; e < 0; e += 0.25 {
		inputs = append(inputs, float32(math.Exp(e)), float32(-math.Exp(e)))
	}
	var first, last float64
	dv := trainer.Tables().Gradients(nil)
	for step := range 100 {
		dv = trainer.Tables().Gradients(dv)
		last = 0
		for _, x := range inputs {
			d := float64(table.At(x)) + math.Tanh(300*float64(x))
			last += d * d
			node, w := table.Locate(x)
			dv[0][0][node] += d * (1 - w)
			dv[0][0][node+1] += d * w
		}
		if step == 0 {
			first = last
		}
		require.NoError(t, trainer.Step(dv, 1e-2))
	}
	require.Less(t, last, first/50)
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		f, err := newForward()
		require.NoError(b, err)
		g, err := newBackward()
		require.NoError(b, err)
		require.NoError(b, f.vm.Close())
		require.NoError(b, g.vm.Close())
	}
}

func BenchmarkStep(b *testing.B) {
	for name, workers := range map[string]int{"workers=1": 1, "workers=2": 2} {
		b.Run(name, func(b *testing.B) {
			l := &sparsemeta.Learner{Branches: make([]sparsemeta.Branch, 30),
				Settings: sparsemeta.TwoBankSettings()}
			for i := range l.Branches {
				l.Branches[i].Size = 1
			}
			l.Init(sparsemeta.InitHe(), 1)
			trainer := newTrainer(b, l, Options{Workers: workers})
			for b.Loop() {
				b.StopTimer()
				dv := waves(trainer, 1)
				b.StartTimer()
				require.NoError(b, trainer.Step(dv, 1e-4))
			}
		})
	}
}
