package metanet

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/experiments/tape"
)

func draw(rows, cols int, r *rand.Rand) *tape.Var {
	v := tape.New(rows, cols)
	for i := range v.Value {
		v.Value[i] = r.NormFloat64()
	}
	return v
}

func TestSlotsMatchFiniteDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := NewSlots([][2]int{{3, 4}, {4, 2}}, 5, 1, r)
	for _, p := range s.Meta.Params() {
		for i := range p.Value {
			p.Value[i] += .3 * r.NormFloat64()
		}
	}
	keys, queries, x := draw(3, 6, r), draw(2, 6, r), draw(2, 3, r)
	var gradients [][][]float64
	for range 3 {
		gradients = append(gradients, [][]float64{draw(3, 4, r).Value, draw(4, 2, r).Value})
	}
	loss := func() (*tape.Tape, *tape.Var) {
		var tp tape.Tape
		s.Forget()
		for i, g := range gradients {
			s.Write(keys.Range(i, i+1), g)
		}
		read := s.Read(&tp, queries)
		y := read.Product(&tp, 1, tp.Tanh(read.Product(&tp, 0, x)))
		return &tp, tp.Sum(tp.Mul(y, tp.Tanh(y)))
	}
	tp, y := loss()
	tp.Backward(y)
	for p, v := range append(s.Meta.Params(), keys, queries, x) {
		for i := range v.Value {
			want := tape.Slope(v, i, loss)
			require.InDelta(t, want, v.Grad[i], 1e-6*(1+math.Abs(want)), "%d %d", p, i)
		}
	}
}

func TestSlotsForgetTheOldest(t *testing.T) {
	s := NewSlots([][2]int{{1, 1}}, 2, 1, rand.New(rand.NewPCG(1, 2)))
	s.Limit = 2
	for i := range 3 {
		s.Write(tape.Const(1, 1, []float64{float64(i)}), [][]float64{{float64(i)}})
	}
	require.Equal(t, 2, s.Len())
	require.Equal(t, 1., s.keys[0].Value[0])
	// Preprocess stores the sign of the gradient as the second number
	require.Equal(t, 1., s.grads[0][0].Value[1])
}

// The names of points change in every task, so slow weights cannot learn the names. The memory
// contains the gradients of the last examples. With this memory, a learner recognizes a point after
// a single example with the point's name.
func TestSlotsLearnNamesFromOneExample(t *testing.T) {
	const points, width = 3, 4
	r := rand.New(rand.NewPCG(3, 4))
	w := tape.Glorot(width, points, r)
	s := NewSlots([][2]int{{width, points}}, 8, 1, r)
	s.Limit, s.Sharpness = points, 5
	solver := &tape.Adam{Rate: .01}
	right, seen := 0, 0
	for task := range 300 {
		x, names := draw(points, width, r), r.Perm(points)
		var inner tape.Tape
		logits := inner.MatMul(x, tape.Const(width, points, w.Value))
		inner.Backward(inner.CrossEntropy(logits, names, nil))
		for i := range points {
			s.Write(tape.Const(1, width, x.Row(i)),
				[][]float64{Outer(x.Row(i), logits.Grad[i*points:][:points])})
		}
		var t tape.Tape
		read := s.Read(&t, x)
		y := t.Add(t.MatMul(x, w), read.Product(&t, 0, x))
		for i := range points {
			if task >= 200 {
				seen++
				if y.Value[i*points+names[i]] == max(y.Row(i)[0], y.Row(i)[1], y.Row(i)[2]) {
					right++
				}
			}
		}
		t.Backward(t.CrossEntropy(y, names, nil))
		solver.Step(append(s.Meta.Params(), w))
	}
	require.Greater(t, float64(right)/float64(seen), .9)
}
