package sparsemeta

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// traced returns a state after some updates, and the gradient of the next loss.
func traced(t *testing.T, banks int) (*Learner, Tables, *State, []float32) {
	l := testLearner(banks)
	tables, s, x := l.Compile(), NewState(l.Branches, banks, 1, kernel.Float32), exec(t, 1)
	s.Trace()
	l.Settings.P = 0.3
	for k := range uint64(3) {
		s.Update(x, tables, l.Settings, nil, gradients(l.Size(), k), make([]float32, l.Size()))
	}
	return l, tables, s, gradients(l.Size(), 17)
}

// loss returns the dot product of g and the fast weights, computed from the nodes' values.
// NodeGradient returns the derivatives of this loss.
func (s *State) loss(t Tables, out float64, g []float32) (sum float64) {
	for bank := range s.X {
		for branch := range s.branches {
			table := t[bank][branch]
			grad := s.Branch(g, branch)
			for e, x := range s.Branch(s.X[bank], branch) {
				if x == x {
					u := coordinate(float64(x))
					a, b := table.affine(table.pieceOf(u))
					sum += float64(grad[e]) * out * (a + b*u)
				}
			}
		}
	}
	return sum
}

// The loss is linear in every node's value, so a difference over a step of 1 is the derivative.
// The tolerance covers rounding and the grid's rounding of the coordinate (1e-6).
func TestNodeGradientAgreesWithFiniteDifferences(t *testing.T) {
	l, tables, s, g := traced(t, 2)
	dv := tables.Gradients(nil)
	s.NodeGradient(exec(t, 1), tables, l.Settings.Out, g, 1, dv)
	out := float64(l.Settings.Out)
	base := s.loss(tables, out, g)
	for bank := range dv {
		for branch := range dv[bank] {
			largest := 0.
			for _, d := range dv[bank][branch] {
				largest = max(largest, math.Abs(d))
			}
			require.NotZero(t, largest)
			for node := 0; node < len(dv[bank][branch]); node += 7 {
				v := &tables[bank][branch].values[node]
				*v++
				require.InDelta(t, s.loss(tables, out, g)-base, dv[bank][branch][node],
					1e-5*largest)
				*v--
			}
		}
	}
}

// Backpropagation through the nodes gives the gradient of the meta-weights: the sum over the
// written elements of G d(out g(x))/dphi. The tolerance is 1e-5 of the largest entry, because a
// rounded coordinate may lie in the neighboring affine piece.
func TestNodeGradientCarriesTheMetaGradient(t *testing.T) {
	l, tables, s, g := traced(t, 2)
	dv := tables.Gradients(nil)
	s.NodeGradient(exec(t, 2), tables, l.Settings.Out, g, 1, dv)
	for bank := range dv {
		for branch := range dv[bank] {
			n, table := &l.Phi[bank][branch], tables[bank][branch]
			var got, want [NetworkSize]float64
			for node, d := range dv[bank][branch] {
				n.Backward(table.nodeInput(node), d, &got)
			}
			grad := s.Branch(g, branch)
			for e, x := range s.Branch(s.X[bank], branch) {
				if x == x {
					n.Backward(float64(x), float64(grad[e])*float64(l.Settings.Out), &want)
				}
			}
			for _, part := range Parts() {
				largest := 0.
				for _, v := range want[part.Lo:part.Hi] {
					largest = max(largest, math.Abs(v))
				}
				for i := part.Lo; i < part.Hi; i++ {
					require.InDelta(t, want[i], got[i], 1e-5*largest, "bank %d branch %d %s", bank,
						branch, part.Name)
				}
			}
		}
	}
}

func TestNodeGradientAddsUpAndDoesNotDependOnThreads(t *testing.T) {
	l, tables, s, g := traced(t, 2)
	one, twice, five := tables.Gradients(nil), tables.Gradients(nil), tables.Gradients(nil)
	s.NodeGradient(exec(t, 1), tables, l.Settings.Out, g, 1, one)
	s.NodeGradient(exec(t, 5), tables, l.Settings.Out, g, 1, five)
	require.Equal(t, one, five)
	x := exec(t, 2)
	s.NodeGradient(x, tables, l.Settings.Out, g, 1, twice)
	s.NodeGradient(x, tables, l.Settings.Out, g, 1, twice)
	for bank := range one {
		for branch := range one[bank] {
			for node, d := range one[bank][branch] {
				require.InDelta(t, 2*d, twice[bank][branch][node], 1e-9*math.Abs(d)+1e-18)
			}
		}
	}
}

func TestNothingWrittenGivesNoGradient(t *testing.T) {
	l := testLearner(2)
	tables, s := l.Compile(), NewState(l.Branches, 2, 1, kernel.Float32)
	s.Trace()
	dv := tables.Gradients(nil)
	s.NodeGradient(exec(t, 1), tables, l.Settings.Out, gradients(l.Size(), 1), 1, dv)
	require.Equal(t, tables.Gradients(nil), dv)
}

// Estimates from every n-th run of elements, averaged over n updates, equal the whole gradient.
// Small branches are not sampled.
func TestSampledNodeGradientsAreTheWholeOnAverage(t *testing.T) {
	const every = 3
	branches := []Branch{{"large", sampleLeast + 5*sampleRun + 7}, {"small", sampleLeast - 1}}
	l := &Learner{Branches: branches, Settings: TwoBankSettings()}
	l.Init(InitHe(), 1)
	tables := l.Compile()
	s := NewState(branches, 2, 1, kernel.Float32)
	s.Trace()
	x := exec(t, 2)
	for seed := range uint64(2) {
		s.Update(x, tables, l.Settings, nil, gradients(l.Size(), seed), make([]float32, l.Size()))
	}
	g := gradients(l.Size(), 9)
	whole, sum := tables.Gradients(nil), tables.Gradients(nil)
	s.NodeGradient(x, tables, l.Settings.Out, g, 1, whole)
	for range every {
		s.Step++
		one := tables.Gradients(nil)
		s.NodeGradient(x, tables, l.Settings.Out, g, every, one)
		require.Equal(t, whole[1][1], one[1][1])
		require.NotEqual(t, whole[1][0], one[1][0])
		for bank := range sum {
			for branch := range sum[bank] {
				for node, v := range one[bank][branch] {
					sum[bank][branch][node] += v / every
				}
			}
		}
	}
	for bank := range whole {
		for branch := range whole[bank] {
			require.InDeltaSlice(t, whole[bank][branch], sum[bank][branch], 1e-9)
		}
	}
}
