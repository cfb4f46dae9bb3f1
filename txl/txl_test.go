package txl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// shapes are small configurations that together cover all branches of the code.
var shapes = map[string]Config{
	"plain": {NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 11, SegLen: 6,
		MemLen: 9},
	"odd": {NLayer: 3, DModel: 10, NHead: 3, DHead: 5, DInner: 7, Vocab: 13, SegLen: 7,
		MemLen: 3, Activation: GELU},
	"prenorm": {NLayer: 2, DModel: 6, NHead: 2, DHead: 5, DInner: 9, Vocab: 9, SegLen: 5,
		MemLen: 8, PreLNorm: true, Activation: SwiGLU},
	"clamped": {NLayer: 2, DModel: 8, NHead: 1, DHead: 7, DInner: 6, Vocab: 7, SegLen: 4,
		MemLen: 6, ClampLen: 3, SameLength: true, Activation: GeGLU},
	"untied": {NLayer: 3, DModel: 8, NHead: 2, DHead: 4, DInner: 9, Vocab: 11, SegLen: 5,
		MemLen: 7, UntieR: true},
	"no memory": {NLayer: 1, DModel: 8, NHead: 2, DHead: 3, DInner: 8, Vocab: 8, SegLen: 9},
	"short limit": {NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 8, Vocab: 8, SegLen: 9,
		MemLen: 4, SameLength: true, PreLNorm: true},
	"blocks": {NLayer: 2, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 7,
		SegLen: queryBlock + 2, MemLen: 30},
	"two blocks": {NLayer: 2, DModel: 4, NHead: 1, DHead: 4, DInner: 4, Vocab: 5,
		SegLen: queryBlock + 1, MemLen: 20, SameLength: true, PreLNorm: true},

	"adaptive": {
		NLayer: 2, DModel: 8, NHead: 2, DHead: 3, DInner: 7, Vocab: 17, SegLen: 7, MemLen: 9,
		Cutoffs: []int{4, 9}, DivVal: 2, TieProjs: []bool{false, true, true},
	},
	"four clusters": {
		NLayer: 1, DModel: 6, NHead: 1, DHead: 5, DInner: 7, Vocab: 14, SegLen: 9, MemLen: 5,
		PreLNorm: true, DEmbed: 10, Cutoffs: []int{3, 4, 8}, DivVal: 2, TieProjs: []bool{true,
			false, true, false},
	},
	"one table": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 13, SegLen: 8, MemLen: 4,
		ClampLen: 2, DEmbed: 4, Cutoffs: []int{5, 8}, DivVal: 1, TieProjs: []bool{true, false,
			true},
	},
	"one table, unprojected": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 13, SegLen: 8, MemLen: 4,
		Cutoffs: []int{6, 7},
	},
	"projected": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 9, SegLen: 6, MemLen: 4,
		DEmbed: 7, TieProjs: []bool{true},
	},
	"projected head": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 9, SegLen: 6, MemLen: 4,
		DivVal: 3,
	},
	"cluster tables": {
		NLayer: 1, DModel: 6, NHead: 1, DHead: 3, DInner: 5, Vocab: 12, SegLen: 8, MemLen: 7,
		SameLength: true, Cutoffs: []int{4, 5}, DivVal: 1, ClusterTables: true,
		TieProjs: []bool{true, true, false},
	},

	"own table": {
		NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 11, SegLen: 6, MemLen: 9,
		UntieSoftmax: true,
	},
	"own table for all clusters": {
		NLayer: 1, DModel: 6, NHead: 2, DHead: 3, DInner: 5, Vocab: 13, SegLen: 8, MemLen: 4,
		PreLNorm: true, DEmbed: 4, Cutoffs: []int{5, 8}, DivVal: 1, TieProjs: []bool{true, false,
			true},
		UntieSoftmax: true,
	},
	"own tables": {
		NLayer: 2, DModel: 8, NHead: 2, DHead: 3, DInner: 7, Vocab: 17, SegLen: 7, MemLen: 9,
		Cutoffs: []int{4, 9}, DivVal: 2, TieProjs: []bool{false, true, true}, UntieSoftmax: true,
	},
}

// randomModel draws weights that are large enough to make errors in any part of the model visible.
func randomModel(t testing.TB, c Config, seed uint64) (*Model, Fast) {
	m, err := NewModel(c)
	require.NoError(t, err)
	m.Init(seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range m.W {
		m.W[i] += float32(rng.NormFloat64() * 0.2)
	}
	fast := make(Fast, len(m.Layout.Tensors))
	for i, tensor := range m.Layout.Tensors {
		fast[i] = make([]float32, tensor.Size)
		for j := range fast[i] {
			fast[i][j] = float32(rng.NormFloat64() * 0.05)
		}
	}
	return m, fast
}

func randomTokens(n, vocab int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}

func newExec(t testing.TB, threads int) *kernel.Exec {
	x := kernel.NewExec(threads)
	t.Cleanup(x.Close)
	return x
}

func interleave[T any](streams [][]T) []T {
	var out []T
	for i := range streams[0] {
		for _, s := range streams {
			out = append(out, s[i])
		}
	}
	return out
}

func TestForwardAndMemoryAgreeWithTheFloat64Reference(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			const batch, segments = 2, 3
			m, fast := randomModel(t, c, 7)
			x := newExec(t, 2)
			seg, mem := NewSegment(c, batch, c.SegLen), NewMemory(c, batch)
			ref := newReference(m, fast)
			length := segments*c.SegLen - 2 // the last segment is short
			streams := [][]int32{randomTokens(length+1, c.Vocab, 3), randomTokens(length+1, c.Vocab,
				4)}
			var nll []float32
			for at := 0; at < length; at += c.SegLen {
				end := min(at+c.SegLen, length)
				in := interleave([][]int32{streams[0][at:end], streams[1][at:end]})
				want := interleave([][]int32{streams[0][at+1 : end+1], streams[1][at+1 : end+1]})
				seg.Begin(x, m, fast, mem)
				seg.Extend(x, in)
				nll = make([]float32, len(want))
				seg.NLL(0, want, nll)
				seg.Remember(mem)
			}
			for b, s := range streams {
				wantNLL, wantMem := ref.run(s[:length], s[1:], c.SegLen)
				for i, w := range wantNLL {
					require.InDelta(t, w, nll[i*batch+b], 2e-5, "nll of row %d", i)
				}
				for l := range wantMem {
					require.Len(t, wantMem[l], mem.Len)
					for i, row := range wantMem[l] {
						for j, w := range row {
							require.InDelta(t, w, mem.Layers[l][(i*batch+b)*c.DModel+j], 2e-5,
								"memory of layer %d", l)
						}
					}
				}
			}
		})
	}
}

func TestBackwardAgreesWithFiniteDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			const batch = 2
			m, fast := randomModel(t, c, 11)
			x := newExec(t, 2)
			seg, mem := NewSegment(c, batch, c.SegLen), NewMemory(c, batch)
			length := 2*c.SegLen - 1
			streams := [][]int32{randomTokens(length+1, c.Vocab, 5), randomTokens(length+1, c.Vocab,
				6)}
			grads := m.Layout.Slices(make([]float32, m.Layout.Size))
			at := 0
			for at+c.SegLen < length {
				seg.Begin(x, m, fast, mem)
				seg.Extend(x, interleave([][]int32{streams[0][at : at+c.SegLen],
					streams[1][at : at+c.SegLen]}))
				seg.Remember(mem)
				at += c.SegLen
			}
			past := snapshot(mem, batch, c)
			seg.Begin(x, m, fast, mem)
			seg.Extend(x, interleave([][]int32{streams[0][at:length], streams[1][at:length]}))
			seg.Backward(x, interleave([][]int32{streams[0][at+1:], streams[1][at+1:]}), grads)

			ref := newReference(m, fast)
			loss := func() (sum float64) {
				for b, s := range streams {
					logp, _ := ref.forward(s[at:length], past[b])
					for i := range logp {
						sum -= logp[i][s[at+i+1]] / float64(batch*len(logp))
					}
				}
				return sum
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for i, tensor := range m.Layout.Tensors {
				largest := 0.0
				for _, g := range grads[i] {
					largest = max(largest, math.Abs(float64(g)))
				}
				for range 8 {
					j := rng.IntN(tensor.Size)
					const h = 1e-5
					at := &ref.w[tensor.Off+j]
					keep := *at
					*at = keep + h
					up := loss()
					*at = keep - h
					down := loss()
					*at = keep
					require.InDelta(t, (up-down)/(2*h), grads[i][j], 1e-4*largest+1e-7, "%s[%d]",
						tensor.Name, j)
				}
			}
		})
	}
}

// The softmax's gradients, passed to BackwardOf, must give the gradient of the network's loss. The
// result must also be linear in the given gradients.
func TestBackwardOfGivenLosses(t *testing.T) {
	c := shapes["plain"]
	const batch = 2
	m, fast := randomModel(t, c, 11)
	x := newExec(t, 2)
	seg := NewSegment(c, batch, c.SegLen)
	seg.Begin(x, m, fast, NewMemory(c, batch))
	ids := randomTokens(batch*(c.SegLen+1), c.Vocab, 5)
	seg.Extend(x, ids[:batch*c.SegLen])
	targets := slices.Clone(ids[batch:])
	targets[3] = -1
	want, got := make([]float32, m.Layout.Size), make([]float32, m.Layout.Size)
	seg.Backward(x, targets, m.Layout.Slices(want))

	dlogits := make([]float32, len(targets)*c.Vocab)
	for r, target := range targets {
		row := dlogits[r*c.Vocab : (r+1)*c.Vocab]
		seg.LogProbs(r/batch, r%batch, row)
		for j := range row {
			row[j] = 2 * float32(math.Exp(float64(row[j])))
		}
		row[max(0, target)] -= 2
	}
	seg.BackwardOf(x, targets, dlogits, m.Layout.Slices(got))
	for i := range got {
		require.InDelta(t, 2*want[i], got[i], 1e-6)
	}
	require.Panics(t, func() { seg.BackwardOf(x, targets, dlogits[1:], m.Layout.Slices(got)) })
}

// The gradient of a tensor must not depend on which other gradients are computed. Gradients without
// a buffer must not be written.
func TestGradientsOfSomeWeightsAreThoseAmongAll(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 15)
			x := newExec(t, 2)
			seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
			ids := randomTokens(2*c.SegLen+1, c.Vocab, 8)
			seg.Begin(x, m, fast, mem)
			seg.Extend(x, ids[:c.SegLen])
			seg.Remember(mem)
			ids = ids[c.SegLen:]
			gradients := func(wanted func(i int) bool) Grads {
				grads := make(Grads, len(m.Layout.Tensors))
				for i, tensor := range m.Layout.Tensors {
					if wanted(i) {
						grads[i] = make([]float32, tensor.Size)
					}
				}
				seg.Begin(x, m, fast, mem)
				seg.Extend(x, ids[:c.SegLen])
				seg.Backward(x, ids[1:], grads)
				return grads
			}
			all := gradients(func(int) bool { return true })
			check := func(t require.TestingT, wanted func(i int) bool) {
				for i, g := range gradients(wanted) {
					if g != nil {
						require.Equal(t, all[i], g, m.Layout.Tensors[i].Name)
					}
				}
			}
			for i := range all {
				check(t, func(j int) bool { return i == j })
			}
			rapid.Check(t, func(rt *rapid.T) {
				subset := rapid.SliceOfN(rapid.Bool(), len(all), len(all)).Draw(rt, "wanted")
				check(rt, func(i int) bool { return subset[i] })
			})
		})
	}
}

func TestKeepingProbabilitiesChangesNoBit(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 19)
			x := newExec(t, 2)
			ids := randomTokens(2*(c.SegLen+1), c.Vocab, 9)
			for _, drop := range []Dropout{{}, {Attention: 0.3, Key: 5}} {
				var results []Grads
				for _, kept := range []bool{true, false} {
					seg, mem := NewSegment(c, 2, c.SegLen), NewMemory(c, 2)
					for i := range seg.layers {
						require.NotEmpty(t, seg.layers[i].prob)
						if !kept {
							seg.layers[i].prob = nil
						}
					}
					grads := m.Layout.Slices(make([]float32, m.Layout.Size))
					seg.SetDropout(drop)
					for range 2 { // only the second pass has a memory
						seg.Begin(x, m, fast, mem)
						seg.Extend(x, ids[:2])
						seg.Extend(x, ids[2:2*c.SegLen])
						seg.Backward(x, ids[2:], grads)
						seg.Remember(mem)
					}
					results = append(results, grads)
				}
				require.Equal(t, results[0], results[1])
			}
		})
	}
}

func TestProbabilitiesOfLongMemoriesAreNotKept(t *testing.T) {
	c, err := Named("enwik8-12l")
	require.NoError(t, err)
	size := func(c Config, rows int) int {
		return (&Segment{cfg: c, B: 1,
			T: rows}).keptSize() * c.NLayer * 4
	}
	require.InDelta(t, 35e6, size(c, 128), 1e6)
	c.MemLen = 3800
	require.Zero(t, size(c, 128))
}

// Continue must give the bits of Remember and Begin, even if the fast weights changed before.
func TestContinueIsRememberAndBegin(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, all := randomModel(t, c, 17)
			x := newExec(t, 2)
			rapid.Check(t, func(rt *rapid.T) {
				fast := make(Fast, len(all))
				for i := range all {
					if rapid.Bool().Draw(rt, m.Layout.Tensors[i].Name) {
						fast[i] = slices.Clone(all[i])
					}
				}
				on, anew, mem := NewSegment(c, 1, c.SegLen), NewSegment(c, 1, c.SegLen),
					NewMemory(c, 1)
				on.Begin(x, m, fast, mem)
				for k := range rapid.IntRange(2, 9).Draw(rt, "segments") {
					if k > 0 {
						for _, f := range fast {
							for j := range f {
								f[j] += 0.01
							}
						}
						on.Continue(x)
					}
					ids := randomTokens(rapid.IntRange(1, c.SegLen).Draw(rt, "rows")+1, c.Vocab,
						uint64(k))
					rows, targets := ids[:len(ids)-1], ids[1:]
					anew.Begin(x, m, fast, mem)
					for _, s := range []*Segment{on, anew} {
						s.Extend(x, rows)
					}
					require.Equal(rt, anew.Hidden(), on.Hidden())
					grads, again := m.Layout.Slices(make([]float32, m.Layout.Size)),
						m.Layout.Slices(make([]float32, m.Layout.Size))
					anew.Backward(x, targets, grads)
					on.Backward(x, targets, again)
					require.Equal(rt, grads, again)
					anew.Remember(mem)
				}
			})
		})
	}
}

// snapshot converts a memory to the form of the reference: [stream][layer][row][D].
func snapshot(mem *Memory, batch int, c Config) [][][][]float64 {
	out := make([][][][]float64, batch)
	for b := range out {
		out[b] = make([][][]float64, c.NLayer)
		for l := range out[b] {
			for i := range mem.Len {
				row := make([]float64, c.DModel)
				for j := range row {
					row[j] = float64(mem.Layers[l][(i*batch+b)*c.DModel+j])
				}
				out[b][l] = append(out[b][l], row)
			}
		}
	}
	return out
}

// Sessions rely on this property, for any number of threads.
func TestSplittingASegmentDoesNotChangeABit(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 13)
			one, many := newExec(t, 1), newExec(t, 3)
			rapid.Check(t, func(rt *rapid.T) {
				ids := randomTokens(2*c.SegLen+1, c.Vocab, rapid.Uint64().Draw(rt, "seed"))
				whole := scoreSegments(one, m, fast, ids, func() int { return c.SegLen })
				split := scoreSegments(many, m, fast, ids,
					func() int { return rapid.IntRange(1, c.SegLen).Draw(rt, "piece") })
				require.Equal(rt, whole, split)
			})
		})
	}
}

// scoreSegments returns the bits of all results for a stream of several segments:
// log-probabilities, gradients, and the memory at the end.
func scoreSegments(x *kernel.Exec, m *Model, fast Fast, ids []int32,
	piece func() int) (bits []uint32) {
	c := m.Config
	seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
	// The segment is used for another stream first, which must not affect the results.
	for range 3 {
		seg.Begin(x, m, fast, mem)
		seg.Extend(x, ids[:c.SegLen])
		seg.Remember(mem)
	}
	mem.Reset()
	grads := m.Layout.Slices(make([]float32, m.Layout.Size))
	keep := func(v []float32) {
		for _, f := range v {
			bits = append(bits, math.Float32bits(f))
		}
	}
	logp := make([]float32, c.Vocab)
	for at := 0; at+c.SegLen < len(ids); at += c.SegLen {
		seg.Begin(x, m, fast, mem)
		for seg.Len() < c.SegLen {
			from := seg.Len()
			to := min(from+piece(), c.SegLen)
			seg.Extend(x, ids[at+from:at+to])
			for i := from; i < to; i++ {
				seg.LogProbs(i, 0, logp)
				keep(logp)
			}
		}
		seg.Backward(x, ids[at+1:at+1+c.SegLen], grads)
		for _, g := range grads {
			keep(g)
		}
		seg.Remember(mem)
	}
	for _, l := range mem.Layers {
		keep(l)
	}
	return bits
}

func TestLaterTokensNeverChangeEarlierProbabilities(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 17)
			x := newExec(t, 2)
			rapid.Check(t, func(rt *rapid.T) {
				ids := randomTokens(c.SegLen, c.Vocab, rapid.Uint64().Draw(rt, "seed"))
				cut := rapid.IntRange(0, c.SegLen-1).Draw(rt, "cut")
				other := append([]int32{}, ids...)
				for i := cut + 1; i < len(other); i++ {
					other[i] = (other[i] + 1 + int32(i)%3) % int32(c.Vocab)
				}
				seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
				var got [2][]float32
				for k, in := range [][]int32{ids, other} {
					seg.Begin(x, m, fast, mem)
					seg.Extend(x, in)
					got[k] = make([]float32, c.Vocab)
					seg.LogProbs(cut, 0, got[k])
				}
				require.Equal(rt, got[0], got[1])
			})
		})
	}
}

// The loss of a token must also equal its negative log-probability, to the bit.
func TestProbabilitiesSumToOne(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) {
			m, fast := randomModel(t, c, 19)
			x := newExec(t, 1)
			seg := NewSegment(c, 1, c.SegLen)
			seg.Begin(x, m, fast, NewMemory(c, 1))
			seg.Extend(x, randomTokens(c.SegLen, c.Vocab, 1))
			logp, nll := make([]float32, c.Vocab), make([]float32, 1)
			for i := range c.SegLen {
				seg.LogProbs(i, 0, logp)
				var sum float64
				for _, v := range logp {
					sum += math.Exp(float64(v))
				}
				require.InDelta(t, 1, sum, 1e-6)
				for id, v := range logp {
					seg.NLL(i, []int32{int32(id)}, nll)
					require.Equal(t, -v, nll[0])
				}
			}
		})
	}
}

// With dropout, the backward pass must use the masks of the forward pass. The finite differences
// use the float32 forward pass, so the tolerance is large.
func TestDropoutBackwardUsesTheForwardMasks(t *testing.T) {
	for _, name := range []string{"plain", "prenorm", "adaptive", "four clusters", "one table"} {
		c := shapes[name]
		m, _ := randomModel(t, c, 23)
		x := newExec(t, 2)
		seg, mem := NewSegment(c, 2, c.SegLen), NewMemory(c, 2)
		seg.SetDropout(Dropout{Hidden: 0.3, Attention: 0.2, Key: 99})
		ids, targets := randomTokens(2*c.SegLen, c.Vocab, 1), randomTokens(2*c.SegLen, c.Vocab, 2)
		nll := make([]float32, len(ids))
		loss := func() (sum float64) {
			seg.Begin(x, m, nil, mem)
			seg.Extend(x, ids)
			seg.NLL(0, targets, nll)
			for _, v := range nll {
				sum += float64(v) / float64(len(nll))
			}
			return sum
		}
		dropped := loss()
		grads := m.Layout.Slices(make([]float32, m.Layout.Size))
		seg.Backward(x, targets, grads)
		for i, tensor := range m.Layout.Tensors {
			largest, at := 0.0, 0
			for j, g := range grads[i] {
				if a := math.Abs(float64(g)); a > largest {
					largest, at = a, j
				}
			}
			w := &m.Tensor(i)[at]
			keep := *w
			const h = 1e-3
			*w = keep + h
			up := loss()
			*w = keep - h
			down := loss()
			*w = keep
			require.InDelta(t, (up-down)/(2*h), grads[i][at], 0.03*largest+3e-4, tensor.Name)
		}
		require.Equal(t, dropped, loss(), "the same key draws the same masks")
		seg.SetDropout(Dropout{})
		require.NotEqual(t, dropped, loss())
	}
}

func TestUnwantedGradientsAreLeftOut(t *testing.T) {
	c := shapes["plain"]
	m, fast := randomModel(t, c, 29)
	x := newExec(t, 1)
	seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
	ids := randomTokens(c.SegLen+1, c.Vocab, 1)
	run := func(grads Grads) {
		seg.Begin(x, m, fast, mem)
		seg.Extend(x, ids[:c.SegLen])
		seg.Backward(x, ids[1:], grads)
	}
	all := m.Layout.Slices(make([]float32, m.Layout.Size))
	run(all)
	for i, tensor := range m.Layout.Tensors {
		one := make(Grads, len(all))
		one[i] = make([]float32, tensor.Size)
		run(one)
		require.Equal(t, all[i], one[i], tensor.Name)
	}
}

func TestWarmSegmentDoesNotAllocate(t *testing.T) {
	for _, name := range []string{"plain", "prenorm", "adaptive", "one table", "own tables"} {
		c := shapes[name]
		m, fast := randomModel(t, c, 31)
		x := newExec(t, 2)
		seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
		seg.SetDropout(Dropout{Hidden: 0.1, Attention: 0.1, Key: 1})
		ids, nll := randomTokens(c.SegLen+1, c.Vocab, 1), make([]float32, c.SegLen)
		logp := make([]float32, c.Vocab)
		grads := m.Layout.Slices(make([]float32, m.Layout.Size))
		step := func() {
			seg.Begin(x, m, fast, mem)
			seg.Extend(x, ids[:3])
			seg.Extend(x, ids[3:c.SegLen])
			seg.NLL(0, ids[1:], nll)
			seg.LogProbs(0, 0, logp)
			seg.Backward(x, ids[1:], grads)
			seg.Remember(mem)
		}
		step()
		require.Zero(t, testing.AllocsPerRun(20, step), name)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	good := shapes["plain"]
	for field, spoil := range map[string]func(*Config){
		"n_layer":     func(c *Config) { c.NLayer = 0 },
		"d_model":     func(c *Config) { c.DModel = 7 },
		"n_head":      func(c *Config) { c.NHead = -1 },
		"mem_len":     func(c *Config) { c.MemLen = -1 },
		"same_length": func(c *Config) { c.MemLen, c.SameLength = 0, true },
		"activation":  func(c *Config) { c.Activation = "tanh" },
		"cutoffs":     func(c *Config) { c.Cutoffs = []int{3, 3} },
		"cutoffs[0]":  func(c *Config) { c.Cutoffs = []int{c.Vocab} },
		"div_val":     func(c *Config) { c.Cutoffs, c.DivVal = []int{3, 5}, 3 },
		"d_embed":     func(c *Config) { c.DEmbed = -1 },
		"tie_projs":   func(c *Config) { c.TieProjs = []bool{true, false} },
		"vocab":       func(c *Config) { c.Vocab = 0 },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Validate(), field)
	}
	require.NoError(t, good.Validate())
	_, err := Named("enwik9")
	require.ErrorContains(t, err, "enwik8-12l")
}

func TestNamedConfigurationsHaveThePapersSizes(t *testing.T) {
	c, err := Named("enwik8-12l")
	require.NoError(t, err)
	require.InDelta(t, 41e6, NewLayout(c).Size, 0.5e6)
	c, err = Named("wt103-16l")
	require.NoError(t, err)
	require.InDelta(t, 151e6, NewLayout(c).Size, 0.5e6)
	tied := NewLayout(c).Size
	c.UntieSoftmax = true
	require.Equal(t, tied+c.Vocab*c.DModel, NewLayout(c).Size)
}

func BenchmarkSegment(b *testing.B) {
	for _, name := range []string{"default", "enwik8-12l"} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				const rows = 128
				c, _ := Named(name)
				m, fast := randomModel(b, c, 1)
				x := newExec(b, threads)
				seg, mem := NewSegment(c, 1, rows), NewMemory(c, 1)
				mem.Len = c.MemLen
				ids := randomTokens(rows+1, c.Vocab, 1)
				grads := m.Layout.Slices(make([]float32, m.Layout.Size))
				for b.Loop() {
					seg.Begin(x, m, fast, mem)
					seg.Extend(x, ids[:rows])
					seg.Backward(x, ids[1:], grads)
				}
				b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

func TestClustersBehindTheVocabularyAreLeftOut(t *testing.T) {
	c, err := Named("wt103-16l")
	require.NoError(t, err)
	c.TieProjs = []bool{false, true, true, true}
	for vocab, cutoffs := range map[int][]int{
		1 << 20: {20000, 40000, 200000}, 200_001: {20000, 40000, 200000}, 200_000: {20000, 40000},
		40_000: {20000}, 20_000: {}, 10: {},
	} {
		got := c.WithVocab(vocab)
		require.NoError(t, got.Validate())
		require.Equal(t, vocab, got.Vocab)
		require.ElementsMatch(t, cutoffs, got.Cutoffs)
		require.Len(t, got.TieProjs, len(cutoffs)+1)
	}
	require.Len(t, c.Cutoffs, 3, "the configuration itself stays")
}
