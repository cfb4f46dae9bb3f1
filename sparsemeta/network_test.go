package sparsemeta

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// scales are the initializations of the tested networks: the two that training uses, PyTorch's
// default size, and a size larger than training reaches.
var scales = []Init{
	InitHe(),
	InitSmall(),
	{W1: 0.4, B1: 0.4, W2: 0.13, B2: 0.13, W3: 0.13, B3: 0.13},
	{W1: 2, B1: 2, W2: 1, B2: 1, W3: 1, B3: 1},
}

func drawNetwork(t *rapid.T) *Network {
	n := new(Network)
	rapid.SampledFrom(scales).Draw(t, "scale").draw(n, rapid.Uint64().Draw(t, "network"))
	return n
}

func TestPartsCoverTheNetwork(t *testing.T) {
	require.Equal(t, 501, NetworkSize)
	at := 0
	for _, p := range Parts() {
		require.Equal(t, at, p.Lo)
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		at += size
		require.Equal(t, at, p.Hi)
	}
	require.Equal(t, NetworkSize, at)
}

func TestPreprocessIsContinuousAndDefinedEverywhere(t *testing.T) {
	for _, sign := range []float64{1, -1} {
		edge := math.Exp(-7)
		m0, s0 := Preprocess(sign * edge * (1 - 1e-12))
		m1, s1 := Preprocess(sign * edge * (1 + 1e-12))
		require.InDelta(t, m0, m1, 1e-11)
		require.InDelta(t, s0, s1, 1e-11)
		m, s := Preprocess(math.Inf(int(sign)))
		require.InDelta(t, 128*math.Ln2/7, m, 1e-12)
		require.Equal(t, sign, s)
	}
	m, s := Preprocess(math.NaN())
	require.Equal(t, [2]float64{-1, 0}, [2]float64{m, s})
}

func TestPreprocessingIsAffineInTheCoordinate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := float64(math.Float32frombits(rapid.Uint32().Draw(t, "bits")))
		m, s := Preprocess(x)
		gm, gs := preprocessAt(coordinate(x))
		require.InDelta(t, m, gm, 1e-12)
		require.InDelta(t, s, gs, 1e-12)
	})
}

// Between kinks, g is affine in each single weight, so a finite difference is exact up to rounding.
// The test skips kinks, where the left and right differences disagree.
func TestBackwardAgreesWithFiniteDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t)
		x := rapid.Float64Range(-3, 3).Draw(t, "x") * math.Exp(rapid.Float64Range(-12, 0).Draw(t,
			"log"))
		d := rapid.Float64Range(-2, 2).Draw(t, "d")
		var grad [NetworkSize]float64
		n.Backward(x, d, &grad)
		checked := 0
		for i := rapid.IntRange(0, 3).Draw(t, "first"); i < NetworkSize; i += 4 {
			up, down := *n, *n
			up[i] += 1e-3
			down[i] -= 1e-3
			right := d * (up.Eval(x) - n.Eval(x)) / (float64(up[i]) - float64(n[i]))
			left := d * (n.Eval(x) - down.Eval(x)) / (float64(n[i]) - float64(down[i]))
			if math.Abs(right-left) < 1e-9*(1+math.Abs(right)) {
				require.InDelta(t, (left+right)/2, grad[i], 1e-8*(1+math.Abs(grad[i])), "weight %d",
					i)
				checked++
			}
		}
		require.Greater(t, checked, NetworkSize/8)
	})
}

func TestValidateNamesTheWeight(t *testing.T) {
	n := new(Network)
	require.NoError(t, n.Validate())
	n[endB1+3] = float32(math.NaN())
	require.EqualError(t, n.Validate(), "w2[3]: found NaN, want a finite number")
}

func TestInitIsDeterministicAndDistinct(t *testing.T) {
	learner := func(seed uint64) *Learner {
		l := &Learner{Branches: []Branch{{"a", 1}, {"b", 1}}, Settings: TwoBankSettings()}
		l.Init(InitHe(), seed)
		require.NoError(t, l.Validate())
		return l
	}
	a, b, c := learner(1), learner(1), learner(2)
	require.Equal(t, a.Phi, b.Phi)
	seen := map[Network]bool{}
	for _, l := range []*Learner{a, c} {
		for _, bank := range l.Phi {
			for _, n := range bank {
				require.False(t, seen[n])
				seen[n] = true
			}
		}
	}
}

func TestInitHasTheStatedDeviations(t *testing.T) {
	const networks = 100
	for _, d := range scales {
		std := []float64{d.W1, d.B1, d.W2, d.B2, d.W3, d.B3}
		sums, squares, counts := [6]float64{}, [6]float64{}, [6]float64{}
		for k := range networks {
			var n Network
			d.draw(&n, uint64(k))
			for p, part := range Parts() {
				for _, v := range n[part.Lo:part.Hi] {
					sums[p] += float64(v)
					squares[p] += float64(v) * float64(v)
					counts[p]++
				}
			}
		}
		for p := range std {
			root := math.Sqrt(counts[p])
			require.InDelta(t, 0, sums[p]/counts[p], 5*std[p]/root+1e-30)
			require.InDelta(t, std[p], math.Sqrt(squares[p]/counts[p]), 5*std[p]/root)
		}
	}
}

// The initial fast weights are small compared with slow weights, which are about 0.1.
func TestInitialFastWeightsAreSmall(t *testing.T) {
	for name, c := range map[string]struct {
		init Init
		out  float64
	}{"he": {InitHe(), 0.01}, "small": {InitSmall(), 1}} {
		squares, count := 0., 0.
		for k := range 30 {
			var n Network
			c.init.draw(&n, uint64(k))
			for e := -12.; e < 0; e++ {
				v := c.out * n.Eval(math.Exp(e))
				squares += v * v
				count++
			}
		}
		rms := math.Sqrt(squares / count)
		require.Greater(t, rms, 1e-5, name)
		require.Less(t, rms, 5e-2, name)
	}
}

func TestSettingsErrorsNameTheField(t *testing.T) {
	nan := float32(math.NaN())
	for want, change := range map[string]func(*Settings){
		"sparsemeta: settings: gammas: found 0 numbers, want 1 to 8, one a bank": func(
			s *Settings) {
			s.Gammas = nil
		},
		"sparsemeta: settings: gammas[1]: found 1.5, want a number from 0 to 1": func(
			s *Settings) {
			s.Gammas[1] = 1.5
		},
		"sparsemeta: settings: gammas[0]: found NaN, want a number from 0 to 1": func(
			s *Settings) {
			s.Gammas[0] = nan
		},
		"sparsemeta: settings: beta1: found -1, want a finite number, 0 or more": func(
			s *Settings) {
			s.Beta1 = -1
		},
		"sparsemeta: settings: beta2: found +Inf, want a finite number, 0 or more": func(
			s *Settings) {
			s.Beta2 = float32(math.Inf(1))
		},
		"sparsemeta: settings: p: found 1.1, want a number from 0 to 1": func(
			s *Settings) {
			s.P = 1.1
		},
		"sparsemeta: settings: out: found 0, want a finite number above 0": func(
			s *Settings) {
			s.Out = 0
		},
	} {
		s := TwoBankSettings()
		require.NoError(t, s.Validate())
		change(&s)
		require.EqualError(t, s.Validate(), want)
		require.ErrorAs(t, s.Validate(), new(*SettingError))
	}
	require.NoError(t, PaperSettings().Validate())
	require.NoError(t, WindowSettings().Validate())
}

func TestLearnerErrorsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*Learner){
		"found no branch":                    func(l *Learner) { l.Branches = nil },
		"branch 1 (b): found size 0":         func(l *Learner) { l.Branches[1].Size = 0 },
		"found networks for 1 banks, want 2": func(l *Learner) { l.Phi = l.Phi[:1] },
		"bank 1: found 1 networks, want 2":   func(l *Learner) { l.Phi[1] = l.Phi[1][:1] },
		"bank 0: b: b3[0]: found +Inf": func(l *Learner) {
			l.Phi[0][1][NetworkSize-1] =
				float32(math.Inf(1))
		},
		"scale: found 1 factors, want 7": func(l *Learner) { l.Scale = []float32{1} },
		"scale[2]: found 0, want a finite numbe": func(l *Learner) {
			l.Scale = []float32{1, 1, 0, 1,
				1, 1, 1}
		},
		"settings: p: found -1": func(l *Learner) { l.Settings.P = -1 },
	} {
		l := &Learner{Branches: []Branch{{"a", 3}, {"b", 4}}, Settings: TwoBankSettings()}
		l.Init(InitHe(), 1)
		require.NoError(t, l.Validate())
		change(l)
		require.ErrorContains(t, l.Validate(), want)
	}
}

func TestOtherSettingsNeedTheLearnersBanks(t *testing.T) {
	l := &Learner{Branches: []Branch{{"a", 3}}, Settings: TwoBankSettings()}
	l.Init(InitHe(), 1)
	other := Settings{Gammas: []float32{0, 1}, Beta1: 1, P: 0.1, Out: 1}
	require.NoError(t, l.Accept(other))
	require.EqualError(t, l.Accept(PaperSettings()), "sparsemeta: settings: gammas: found 1 "+
		"numbers, want 2, one a bank of the model")
	other.P = 2
	require.ErrorContains(t, l.Accept(other), "settings: p")
}
