package txl

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The memories are as long as those in the published evaluations of character and word models.
func TestLongMemoriesAgreeWithTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	trained := Config{NLayer: 1, DModel: 4, NHead: 1, DHead: 4, DInner: 4, Vocab: 5, SegLen: 50,
		MemLen: 16}
	yes := true
	for name, l := range map[string]Lengths{
		"characters": {MemLen: new(3800)},
		"clamped":    {MemLen: new(3800), ClampLen: new(1000), SameLength: &yes},
		"words":      {MemLen: new(640), ClampLen: new(400), SameLength: &yes},
	} {
		t.Run(name, func(t *testing.T) {
			c := trained.WithLengths(l)
			require.NoError(t, c.Validate())
			m, fast := randomModel(t, c, 5)
			ids := randomTokens(c.MemLen+3*c.SegLen+1, c.Vocab, 9)
			length := len(ids) - 1
			want, _ := newReference(m, fast).run(ids[:length], ids[1:], c.SegLen)

			x := newExec(t, 2)
			on, anew, mem := NewSegment(c, 1, c.SegLen), NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
			nll, again := make([]float32, c.SegLen), make([]float32, c.SegLen)
			on.Begin(x, m, fast, mem)
			var last []float32
			for at := 0; at < length; at += c.SegLen {
				end := min(at+c.SegLen, length)
				if at > 0 {
					on.Continue(x)
				}
				anew.Begin(x, m, fast, mem)
				on.Extend(x, ids[at:end])
				anew.Extend(x, ids[at:end])
				on.NLL(0, ids[at+1:end+1], nll)
				anew.NLL(0, ids[at+1:end+1], again)
				last = nll[:end-at]
				require.Equal(t, again[:end-at], last)
				anew.Remember(mem)
			}
			require.Equal(t, c.MemLen, mem.Len)
			for i, w := range want[len(want)-len(last):] {
				require.InDelta(t, w, last[i], 5e-5)
			}
		})
	}
}

// Reuse.FixedWeights must not change any bit. The test uses one segment for streams of several
// models in random order, with and without fast weights.
func TestFixingWeightsChangesNoBit(t *testing.T) {
	c := shapes["prenorm"]
	x := newExec(t, 1)
	var models []*Model
	var weights []Fast
	for seed := range uint64(2) {
		m, fast := randomModel(t, c, seed)
		models, weights = append(models, m, m), append(weights, nil, fast)
	}
	rapid.Check(t, func(rt *rapid.T) {
		seg := NewSegment(c, 1, c.SegLen)
		seg.SetReuse(Reuse{FixedWeights: true})
		mems := make([]*Memory, len(models))
		for i := range mems {
			mems[i] = NewMemory(c, 1)
		}
		for range 12 {
			i := rapid.IntRange(0, len(models)-1).Draw(rt, "stream")
			ids := randomTokens(rapid.IntRange(1, c.SegLen).Draw(rt, "rows"), c.Vocab, uint64(i))
			fresh := NewSegment(c, 1, c.SegLen)
			for _, s := range []*Segment{fresh, seg} {
				s.Begin(x, models[i], weights[i], mems[i])
				s.Extend(x, ids)
			}
			require.Equal(rt, fresh.Hidden(), seg.Hidden())
			seg.Remember(mems[i])
		}
	})
}

// Stale keys must equal recomputed keys while the fast weights that affect keys do not change.
func TestStaleKeysOfWeightsThatStandAreExact(t *testing.T) {
	for _, name := range []string{"plain", "prenorm"} {
		c := shapes[name]
		m, all := randomModel(t, c, 3)
		x := newExec(t, 2)
		upper := make(Fast, len(all))
		upper[m.Layout.Index("layers.1.pos_ff.CoreNet.0.weight")] = slices.Clone(
			all[m.Layout.Index("layers.1.pos_ff.CoreNet.0.weight")])
		for _, fast := range []Fast{all, upper} {
			exact, stale := NewSegment(c, 1, c.SegLen), NewSegment(c, 1, c.SegLen)
			stale.SetReuse(Reuse{StaleKeys: true})
			for _, s := range []*Segment{exact, stale} {
				s.Begin(x, m, fast, NewMemory(c, 1))
			}
			for k := range uint64(6) {
				ids := randomTokens(c.SegLen, c.Vocab, k)
				for _, s := range []*Segment{exact, stale} {
					if k > 0 {
						s.Continue(x)
					}
					s.Extend(x, ids)
				}
				require.Equal(t, exact.Hidden(), stale.Hidden())
				for _, f := range upper {
					for j := range f {
						f[j] += 0.01
					}
				}
			}
		}
	}
}

func TestBackwardTakesStaleKeysForConstants(t *testing.T) {
	for _, name := range []string{"plain", "prenorm"} {
		c := shapes[name]
		m, fast := randomModel(t, c, 23)
		x := newExec(t, 1)
		ids := randomTokens(3*c.SegLen+1, c.Vocab, 2)
		at := m.Layout.Index("layers.1.dec_attn.qkv_net.weight")
		// loss sets the weights before Continue, and adds step times along to them after Continue.
		// It returns the loss of the segment that follows Continue.
		loss := func(step float64, along []float32, grads Grads) float64 {
			moved := make(Fast, len(fast))
			for i, f := range fast {
				moved[i] = slices.Clone(f)
			}
			s := NewSegment(c, 1, c.SegLen)
			s.SetReuse(Reuse{StaleKeys: true})
			s.Begin(x, m, moved, NewMemory(c, 1))
			s.Extend(x, ids[:c.SegLen])
			for j := range moved[at] {
				moved[at][j] += 0.05
			}
			s.Continue(x)
			for j, v := range along {
				moved[at][j] += float32(step) * v
			}
			s.addFast(x) // addFast does not recompute the memory's keys
			targets, nll := ids[c.SegLen+1:2*c.SegLen+1], make([]float32, c.SegLen)
			s.Extend(x, ids[c.SegLen:2*c.SegLen])
			s.NLL(0, targets, nll)
			if grads != nil {
				s.Backward(x, targets, grads)
			}
			sum := 0.0
			for _, v := range nll {
				sum += float64(v) / float64(len(nll))
			}
			return sum
		}
		grads := m.Layout.Slices(make([]float32, m.Layout.Size))
		loss(0, nil, grads)
		length := 0.0
		for _, g := range grads[at] {
			length += float64(g) * float64(g)
		}
		length = math.Sqrt(length)
		along := make([]float32, len(grads[at]))
		for j, g := range grads[at] {
			along[j] = g / float32(length)
		}
		const h = 0.01
		slope := (loss(h, along, nil) - loss(-h, along, nil)) / (2 * h)
		require.InEpsilon(t, length, slope, 2e-3, name)
	}
}
