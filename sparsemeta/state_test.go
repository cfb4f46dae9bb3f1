package sparsemeta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// testLearner has branches of critical sizes: smaller than a word of mask bits, odd, longer than a
// span, and exactly a span.
func testLearner(banks int) *Learner {
	l := &Learner{
		Branches: []Branch{{"short", 3}, {"odd", 1027}, {"long", 2*spanSize + 5},
			{"span", spanSize}},
		Settings: Settings{Gammas: []float32{0.98, 0.9995, 0.5}[:banks], Beta1: 0.5, Beta2: 0.25,
			P: 0.5, Out: 0.01},
	}
	l.Init(InitHe(), 7)
	return l
}

// gradients returns random numbers of many orders of magnitude, like real gradients.
func gradients(size int, seed uint64) []float32 {
	g := make([]float32, size)
	for i := range g {
		k := uint64(2 * i)
		g[i] = float32(normal(seed, k) * math.Exp(2*normal(seed, k+1)-8))
	}
	return g
}

func exec(t testing.TB, threads int) *kernel.Exec {
	x := kernel.NewExec(threads)
	t.Cleanup(x.Close)
	return x
}

type naive struct{ i, m float64 }

func (e *naive) step(n *Network, set Settings, bank int, scale, g float64, write bool) {
	e.i = float64(set.Gammas[bank])*e.i + float64(set.Beta1)*g
	if write {
		e.m = float64(set.Out) * n.Eval((e.i+float64(set.Beta2)*g)*scale)
	}
}

// I may differ from the equations by float32 rounding over five steps. M may differ by the table's
// error bound and by the rounding of the table's input.
func TestUpdateAgreesWithTheEquations(t *testing.T) {
	for banks := 1; banks <= 3; banks++ {
		l := testLearner(banks)
		size := l.Size()
		scale := make([]float32, size)
		for i := range scale {
			scale[i] = float32(math.Exp(normal(5, uint64(i))))
		}
		tables, s, x, fast := l.Compile(), NewState(l.Branches, banks, 1, kernel.Float32),
			exec(t, 2), make([]float32, size)
		want := make([][]naive, banks)
		for bank := range want {
			want[bank] = make([]naive, size)
		}
		for step := range uint64(5) {
			g := gradients(size, step)
			masks := randomMasks(banks, size, step)
			written := s.UpdateMasked(x, tables, l.Settings, scale, g, fast, masks)
			ones := 0
			for bank := range want {
				e := 0
				for b, branch := range l.Branches {
					bound := float64(l.Settings.Out) * (tables[bank][b].ErrorBound() * 1.01)
					for range branch.Size {
						w := &want[bank][e]
						w.step(&l.Phi[bank][b], l.Settings, bank, float64(scale[e]), float64(g[e]),
							masks[bank][e] != 0)
						ones += int(masks[bank][e])
						if math.Abs(w.i-float64(s.I[bank].F32[e])) > 1e-6*math.Abs(w.i)+1e-9 ||
							math.Abs(w.m-float64(s.M[bank].F32[e])) > bound {
							require.Failf(t, "off", "step %d bank %d element %d: I %v, want %v; "+
								"M %v, want %v", step, bank, e, s.I[bank].F32[e], w.i,
								s.M[bank].F32[e], w.m)
						}
						e++
					}
				}
			}
			require.Equal(t, ones, written)
		}
		require.Equal(t, uint64(5), s.Step)
		requireSum(t, s, fast)
	}
}

func randomMasks(banks, size int, seed uint64) [][]uint8 {
	masks := make([][]uint8, banks)
	for bank := range masks {
		masks[bank] = make([]uint8, size)
		for e := range masks[bank] {
			masks[bank][e] = uint8(kernel.Bits(seed, uint64(bank*size+e)) & 1)
		}
	}
	return masks
}

func requireSum(t *testing.T, s *State, fast []float32) {
	want := make([]float32, s.Size())
	var squares float64
	for e := range want {
		want[e] = s.M[0].At(e)
		for _, m := range s.M[1:] {
			want[e] += m.At(e)
		}
		squares += float64(want[e]) * float64(want[e])
	}
	require.Equal(t, want, fast)
	again := make([]float32, s.Size())
	v := kernel.Arithmetic{}.Vectors()
	s.Sum(v, again)
	require.Equal(t, want, again)
	require.InEpsilon(t, math.Sqrt(squares/float64(len(want))), s.RMS(v), 1e-6)
}

// M differs only by one rounding to bfloat16. I is rounded stochastically in each step, so its mean
// does not drift.
func TestBF16StateIsRoundedFloat32State(t *testing.T) {
	for banks := 1; banks <= 3; banks++ {
		l := testLearner(banks)
		l.Settings.Gammas = []float32{0.98, 0.9995, 0.9}[:banks]
		tables, x, fast := l.Compile(), exec(t, 2), make([]float32, l.Size())
		whole, half := NewState(l.Branches, banks, 1, kernel.Float32), NewState(l.Branches, banks,
			1, kernel.BF16)
		require.Equal(t, whole.Bytes(), 2*half.Bytes())
		const steps = 100
		var drift, size float64
		for k := range uint64(steps) {
			g := gradients(l.Size(), k%7)
			require.Equal(t, whole.Update(x, tables, l.Settings, nil, g, fast),
				half.Update(x, tables, l.Settings, nil, g, fast), "the same masks")
		}
		requireSum(t, half, fast)
		for bank := range half.M {
			for e := range l.Size() {
				drift += float64(half.I[bank].At(e) - whole.I[bank].At(e))
				size += math.Abs(float64(whole.I[bank].At(e)))
			}
		}
		// In each step, rounding changes an element of I by about 2^-8 of its value, up or down.
		// 100 random roundings add up to about sqrt(100)/2^8 of the value. The mean over thousands
		// of elements changes far less.
		require.InDelta(t, 0, drift/size, 5*10./256/math.Sqrt(float64(banks*l.Size())))
	}
}

func TestWithoutAveragingFastWeightsAreGOfGradient(t *testing.T) {
	l := testLearner(1)
	l.Settings = Settings{Gammas: []float32{0}, Beta2: 1, P: 1, Out: 1}
	tables, s, fast := l.Compile(), NewState(l.Branches, 1, 1, kernel.Float32),
		make([]float32, l.Size())
	for step := range uint64(2) {
		g := gradients(l.Size(), step)
		require.Equal(t, l.Size(), s.Update(exec(t, 1), tables, l.Settings, nil, g, fast))
		want := make([]float32, 0, l.Size())
		for b := range l.Branches {
			for _, v := range s.Branch(g, b) {
				want = append(want, tables[0][b].At(v))
			}
		}
		require.Equal(t, want, fast)
		require.Equal(t, make([]float32, l.Size()), s.I[0].F32)
	}
}

func TestProbabilityZeroWritesNothingAndOneEverything(t *testing.T) {
	for banks := 1; banks <= 2; banks++ {
		l := testLearner(banks)
		tables, s, x, fast := l.Compile(), NewState(l.Branches, banks, 1, kernel.Float32),
			exec(t, 2), make([]float32, l.Size())
		g := gradients(l.Size(), 1)
		l.Settings.P = 0
		for range 3 {
			require.Zero(t, s.Update(x, tables, l.Settings, nil, g, fast))
		}
		require.Equal(t, make([]float32, l.Size()), fast)
		require.NotZero(t, s.I[0].F32[0])
		l.Settings.P = 1
		s.Trace()
		require.Equal(t, banks*l.Size(), s.Update(x, tables, l.Settings, nil, g, fast))
		for bank := range s.X {
			for e, v := range s.X[bank] {
				if v != v || s.M[bank].F32[e] == 0 {
					require.Failf(t, "not written", "bank %d element %d", bank, e)
				}
			}
		}
	}
}

// The state's hash is the same for any number of threads, any order of the spans, and for assembly
// and portable Go. The golden hash detects changes between versions of the code.
func TestBitsDoNotDependOnThreadsOrOrder(t *testing.T) {
	for held, golden := range goldenHashes {
		t.Run(string(held), func(t *testing.T) { checkBits(t, held, golden) })
	}
}

func checkBits(t *testing.T, held kernel.Precision, golden string) {
	l := testLearner(2)
	tables, fast := l.Compile(), make([]float32, testLearner(2).Size())
	update := func(step func(s *State, g []float32)) string {
		s := NewState(l.Branches, 2, 99, held)
		s.Trace()
		for k := range uint64(4) {
			step(s, gradients(l.Size(), k))
		}
		return s.Hash()
	}
	threads := func(n int) string {
		x := exec(t, n)
		return update(func(s *State, g []float32) { s.Update(x, tables, l.Settings, nil, g, fast) })
	}
	want := threads(1)
	require.Equal(t, want, threads(2))
	require.Equal(t, want, threads(5))
	rng, x := rand.New(rand.NewPCG(1, 2)), exec(t, 1)
	require.Equal(t, want, update(func(s *State, g []float32) {
		s.job = updateJob{s: s, tables: tables, set: l.Settings,
			threshold: maskThreshold(l.Settings.P), g: g, fast: fast}
		for _, i := range rng.Perm(len(s.spans)) {
			s.job.Do(x, i)
		}
		s.Step++
	}))
	require.Equal(t, golden, want)
}

var goldenHashes = map[kernel.Precision]string{
	kernel.Float32: "08f9a9726379ca5a3814e2f3108eed49c1c9e88de1bcf19842722d76d09bc884",
	kernel.BF16:    "5cc186287891358c53b662c61536af3a6e0f1c20b96704a7232f4839799c3b5f",
}

func TestHashSeesEverything(t *testing.T) {
	fresh := func() *State {
		s := NewState([]Branch{{"a", 5}}, 2, 1, kernel.Float32)
		s.Trace()
		return s
	}
	want := fresh().Hash()
	require.Equal(t, want, fresh().Hash())
	for name, change := range map[string]func(*State){
		"seed": func(s *State) { s.Seed++ }, "step": func(s *State) { s.Step++ },
		"I":            func(s *State) { s.I[1].F32[4] = 1 },
		"M":            func(s *State) { s.M[0].F32[0] = float32(math.Copysign(0, -1)) },
		"I in 16 bits": func(s *State) { s.I[1] = kernel.NewArray(5, kernel.BF16) },
		"X":            func(s *State) { s.X[1][3] = 0 },
	} {
		s := fresh()
		change(s)
		require.NotEqual(t, want, s.Hash(), name)
	}
}

func TestResetForgetsAllButTheMasksTime(t *testing.T) {
	l := testLearner(2)
	tables, x, fast := l.Compile(), exec(t, 1), make([]float32, l.Size())
	s := NewState(l.Branches, 2, 5, kernel.BF16)
	s.Trace()
	for k := range uint64(3) {
		s.Update(x, tables, l.Settings, nil, gradients(l.Size(), k), fast)
	}
	s.Reset()
	fresh := NewState(l.Branches, 2, 5, kernel.BF16)
	fresh.Trace()
	fresh.Step = 3
	require.Equal(t, fresh.Hash(), s.Hash())
}

func TestExportedFieldsAreTheWholeState(t *testing.T) {
	for banks := 1; banks <= 2; banks++ {
		l := testLearner(banks)
		tables, x, fast := l.Compile(), exec(t, 2), make([]float32, l.Size())
		held := []kernel.Precision{kernel.Float32, kernel.BF16}[banks-1]
		s := NewState(l.Branches, banks, 5, held)
		s.Trace()
		for k := range uint64(3) {
			s.Update(x, tables, l.Settings, nil, gradients(l.Size(), k), fast)
		}
		other := NewState(l.Branches, banks, 0, held)
		other.Trace()
		other.CopyFrom(s)
		for k := range uint64(3) {
			s.Update(x, tables, l.Settings, nil, gradients(l.Size(), 10+k), fast)
			require.NotEqual(t, s.Hash(), other.Hash())
			other.Update(x, tables, l.Settings, nil, gradients(l.Size(), 10+k), fast)
			require.Equal(t, s.Hash(), other.Hash())
		}
	}
}

// A gradient that is not finite must not make M infinite or NaN. X must not be NaN, because NaN
// means that the element was not written.
func TestGradientsThatAreNoNumbers(t *testing.T) {
	l := testLearner(1)
	l.Settings.P = 1
	s := NewState(l.Branches, 1, 1, kernel.BF16)
	s.Trace()
	g := gradients(l.Size(), 1)
	g[0], g[1], g[2] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
	s.Update(exec(t, 1), l.Compile(), l.Settings, nil, g, make([]float32, l.Size()))
	for e := range 3 {
		require.False(t, math.IsNaN(float64(s.M[0].At(e))) || math.IsInf(float64(s.M[0].At(e)), 0))
		require.Equal(t, s.X[0][e], s.X[0][e])
	}
}

func TestWarmUpdatesAllocateNothing(t *testing.T) {
	l := testLearner(2)
	tables, s := l.Compile(), NewState(l.Branches, 2, 1, kernel.BF16)
	s.Trace()
	g, masks, dv, fast := gradients(l.Size(), 1), randomMasks(2, l.Size(), 1),
		tables.Gradients(nil), make([]float32, l.Size())
	for _, threads := range []int{1, 2} {
		x := exec(t, threads)
		require.Zero(t, testing.AllocsPerRun(20, func() {
			s.Update(x, tables, l.Settings, nil, g, fast)
			s.UpdateMasked(x, tables, l.Settings, nil, g, fast, masks)
			s.NodeGradient(x, tables, l.Settings.Out, g, 1, dv)
			dv = tables.Gradients(dv)
			s.Sum(x.Vectors, fast)
			s.RMS(x.Vectors)
			s.Reset()
		}))
	}
}

func TestMismatchedShapesPanic(t *testing.T) {
	l := testLearner(2)
	tables, s, x, g := l.Compile(), NewState(l.Branches, 2, 1, kernel.Float32), exec(t, 1),
		gradients(l.Size(), 1)
	fast, one := make([]float32, l.Size()), l.Settings
	one.Gammas = one.Gammas[:1]
	for name, f := range map[string]func(){
		"gradient": func() { s.Update(x, tables, l.Settings, nil, g[1:], fast) },
		"tables":   func() { s.Update(x, tables[:1], l.Settings, nil, g, fast) },
		"gammas":   func() { s.Update(x, tables, one, nil, g, fast) },
		"fast":     func() { s.Update(x, tables, l.Settings, nil, g, fast[1:]) },
		"sum":      func() { s.Sum(x.Vectors, fast[1:]) },
		"half":     func() { s.CopyFrom(NewState(l.Branches, 2, 1, kernel.BF16)) },
		"scale":    func() { s.Update(x, tables, l.Settings, g[1:], g, fast) },
		"masks": func() {
			s.UpdateMasked(x, tables, l.Settings, nil, g, fast,
				randomMasks(1, len(g), 1))
		},
		"mask": func() {
			s.UpdateMasked(x, tables, l.Settings, nil, g, fast,
				randomMasks(2, len(g)-1, 1))
		},
		"untraced": func() { s.NodeGradient(x, tables, 1, g, 1, tables.Gradients(nil)) },
		"other":    func() { s.CopyFrom(NewState(l.Branches, 1, 1, kernel.Float32)) },
	} {
		require.Panics(t, f, name)
	}
}

func written(t testing.TB, branches []Branch, banks int, seed, step uint64, p float64) [][]bool {
	l := &Learner{Branches: branches, Settings: Settings{Gammas: make([]float32, banks), Beta2: 1,
		P: p, Out: 1}}
	l.Phi = make([][]Network, banks)
	for bank := range l.Phi {
		l.Phi[bank] = make([]Network, len(branches))
	}
	s := NewState(branches, banks, seed, kernel.Float32)
	s.Step = step
	s.Trace()
	s.Update(exec(t, 1), l.Compile(), l.Settings, nil, make([]float32, l.Size()),
		make([]float32, l.Size()))
	on := make([][]bool, banks)
	for bank := range on {
		for _, v := range s.X[bank] {
			on[bank] = append(on[bank], v == v)
		}
	}
	return on
}

func count(on []bool) (n float64) {
	for _, b := range on {
		if b {
			n++
		}
	}
	return n
}

func together(a, b []bool) (n float64) {
	for i := range a {
		if a[i] && b[i] {
			n++
		}
	}
	return n
}

func TestMasksAreBernoulli(t *testing.T) {
	const n = 200_000
	for _, p := range []float64{0.001, 0.05, 0.3, 0.5, 0.9} {
		on := written(t, []Branch{{"a", n}}, 1, 11, 0, p)[0]
		sigma := math.Sqrt(p * (1 - p) / n)
		require.InDelta(t, p, count(on)/n, 5*sigma+1./(1<<17))
		for lane := range kernel.MaskLanes {
			part := []bool{}
			for e := lane; e < n; e += kernel.MaskLanes {
				part = append(part, on[e])
			}
			require.InDelta(t, p, count(part)/float64(len(part)), 5*2*sigma+1./(1<<17))
		}
	}
}

// Masks with different bank, branch, step or seed both write an element with probability p². A mask
// and a shifted copy of this mask do so, too.
func TestMasksAreIndependent(t *testing.T) {
	const n, p = 100_000, 0.3
	branches := []Branch{{"a", n}, {"b", n}}
	first := written(t, branches, 2, 1, 0, p)
	later := written(t, branches, 2, 1, 1, p)
	other := written(t, branches, 2, 2, 0, p)
	a := first[0][:n]
	pairs := map[string][2][]bool{
		"branch": {a, first[0][n:]}, "bank": {a, first[1][:n]}, "bank and branch": {first[0][n:],
			first[1][:n]},
		"step": {a, later[0][:n]}, "seed": {a, other[0][:n]}, "step and bank": {first[1][:n],
			later[0][:n]},
	}
	for _, d := range []int{1, 2, 3, 4, 5, 8, 64, spanSize} {
		pairs[fmt.Sprintf("distance %d", d)] = [2][]bool{a[d:], a[:n-d]}
	}
	for name, pair := range pairs {
		m := float64(len(pair[0]))
		require.InDelta(t, p*p, together(pair[0], pair[1])/m, 5*math.Sqrt(p*p*(1-p*p)/m), name)
	}
}

func TestProbabilitiesAreRoundedToMaskUnits(t *testing.T) {
	for p, want := range map[float64]uint32{0: 0, 0.4 / 65536: 0, 0.6 / 65536: 1, 0.05: 3277,
		0.5: 1 << 15, 1: 1 << 16} {
		require.Equal(t, want, maskThreshold(p))
	}
}

func TestMaskBitsAreThoseOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed, step := rapid.Uint64().Draw(rt, "seed"), rapid.Uint64().Draw(rt, "step")
		p := rapid.Float64Range(0, 1).Draw(rt, "p")
		branches := []Branch{{"a", rapid.IntRange(1, 9).Draw(rt, "a")},
			{"b", rapid.IntRange(1, 2*spanSize+9).Draw(rt, "b")}}
		on := written(t, branches, 2, seed, step, p)
		bank := rapid.IntRange(0, 1).Draw(rt, "bank")
		e := rapid.IntRange(0, branches[1].Size-1).Draw(rt, "element")
		word := kernel.Bits(kernel.Key(seed, uint64(bank), 1, step), uint64(e/4))
		lane := word >> (16 * (e % 4)) & 0xFFFF
		require.Equal(rt, float64(lane) < math.Round(p*65536), on[bank][branches[0].Size+e])
	})
}
