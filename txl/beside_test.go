package txl

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Each tensor in turn gets fast weights. For every second tensor, the bias of the softmax also gets
// fast weights.
func TestSegmentBesideAnotherHasBitsOfWholeOne(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, all := randomModel(t, c, 7)
			for at := range all {
				fast := make(Fast, len(all))
				fast[at] = all[at]
				if bias := m.Layout.Index("crit.out_layers.0.bias"); at%2 == 0 {
					fast[bias] = all[bias]
				}
				besideAsWhole(t, m, fast, nil, uint64(at))
			}
		})
	}
}

// Both networks have fast weights, which differ only in some tensors.
func TestSegmentBesideAnotherMayHaveFastWeights(t *testing.T) {
	c := shapes["odd"]
	m, one := randomModel(t, c, 7)
	_, two := randomModel(t, c, 8)
	for i, tensor := range m.Layout.Tensors {
		if tensor.Name < "layers.1.pos_ff" || tensor.Name > "layers.2" {
			two[i] = one[i]
		}
	}
	besideAsWhole(t, m, one, two, 1)
}

func besideAsWhole(t *testing.T, m *Model, fast, others Fast, seed uint64) {
	c, x := m.Config, newExec(t, 2)
	of, whole := NewSegment(c, 1, c.SegLen), NewSegment(c, 1, c.SegLen)
	beside := NewBeside(of)
	for _, s := range []*Segment{of, beside, whole} {
		s.SetReuse(Reuse{FixedWeights: true})
	}
	alike := m.LayersAlike(func(i int) bool {
		return fast[i] != nil && (others == nil || &fast[i][0] != &others[i][0])
	})
	mem, wholeMem, upper := NewMemory(c, 1), NewMemory(c, 1), NewMemoryAbove(c, 1, alike)
	ids := randomTokens(7*c.SegLen+1, c.Vocab, seed)
	nll, want := make([]float32, c.SegLen), make([]float32, c.SegLen)
	probs, wantProbs := make([]float32, c.Vocab), make([]float32, c.Vocab)
	for k := range 7 {
		if k == 0 || k == 4 {
			of.Begin(x, m, fast, mem)
			beside.Begin(x, m, others, upper)
			whole.Begin(x, m, others, wholeMem)
		} else {
			of.Continue(x)
			beside.Continue(x)
			whole.Continue(x)
		}
		from := k * c.SegLen
		for _, s := range []*Segment{of, whole} {
			s.Extend(x, ids[from:from+c.SegLen])
		}
		beside.Extend(x, ids[from:from+1+k%3])
		beside.Extend(x, ids[from+1+k%3:from+c.SegLen])
		beside.NLL(0, ids[from+1:from+c.SegLen+1], nll)
		whole.NLL(0, ids[from+1:from+c.SegLen+1], want)
		require.Equal(t, want, nll)
		beside.LogProbs(c.SegLen-1, 0, probs)
		whole.LogProbs(c.SegLen-1, 0, wantProbs)
		require.Equal(t, wantProbs, probs)
		of.Remember(mem)
		beside.Remember(upper)
		whole.Remember(wholeMem)
		require.Equal(t, wholeMem.Len, upper.Len)
		for l, rows := range wholeMem.Layers {
			had := upper.Layers[l]
			if l < alike {
				require.Nil(t, had)
				had = mem.Layers[l]
			}
			require.Equal(t, rows, had, "layer %d", l)
		}
	}
}

// The networks of successive pairs begin to differ at different half-layers. No pair may affect the
// results of the next pair.
func TestPairOfSegmentsLeavesNothingInNextOne(t *testing.T) {
	c := shapes["prenorm"]
	m, all := randomModel(t, c, 3)
	x := newExec(t, 1)
	of := NewSegment(c, 1, c.SegLen)
	beside := NewBeside(of)
	for _, s := range []*Segment{of, beside} {
		s.SetReuse(Reuse{FixedWeights: true})
	}
	rapid.Check(t, func(rt *rapid.T) {
		fast := make(Fast, len(all))
		if at := rapid.IntRange(-1, len(all)-1).Draw(rt, "tensor"); at >= 0 {
			fast[at] = all[at]
		}
		alike := m.LayersAlike(func(i int) bool { return fast[i] != nil })
		mem, upper, wholeMem := NewMemory(c, 1), NewMemoryAbove(c, 1, alike), NewMemory(c, 1)
		whole := NewSegment(c, 1, c.SegLen)
		for k := range uint64(3) {
			ids := randomTokens(c.SegLen, c.Vocab, k)
			of.Begin(x, m, fast, mem)
			beside.Begin(x, m, nil, upper)
			whole.Begin(x, m, nil, wholeMem)
			for _, s := range []*Segment{of, beside, whole} {
				s.Extend(x, ids)
			}
			require.Equal(rt, whole.Hidden(), beside.Hidden())
			of.Remember(mem)
			beside.Remember(upper)
			whole.Remember(wholeMem)
		}
	})
}

// A call before the partner's call, or with another model, would give wrong numbers, so it panics.
func TestSegmentBesideAnotherFollowsIt(t *testing.T) {
	c := shapes["plain"]
	m, fast := randomModel(t, c, 3)
	other, _ := randomModel(t, c, 4)
	x := newExec(t, 1)
	of := NewSegment(c, 1, c.SegLen)
	beside := NewBeside(of)
	of.Begin(x, m, nil, NewMemory(c, 1))
	require.PanicsWithValue(t, "txl: two parallel segments have different models or memories",
		func() {
			beside.Begin(x, other, nil, NewMemory(c, 1))
		})
	beside.Begin(x, m, nil, NewMemory(c, 1))
	require.PanicsWithValue(t, "txl: a segment is extended before the segment that it follows",
		func() {
			beside.Extend(x, []int32{1})
		})
	require.PanicsWithValue(t, "txl: backward: the segment runs beside another segment, and so "+
		"can only score",
		func() {
			beside.Backward(x, nil, fast)
		})
	require.Less(t, BesideBytes(c, 1, c.SegLen), SegmentBytes(c, 1, c.SegLen))
}
