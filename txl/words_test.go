package txl

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

func drawWords(t *rapid.T) Config {
	c := Config{
		NLayer: 1, NHead: 1, DHead: 3, DInner: 4,
		// GELU is smooth, so finite differences are accurate.
		Activation: GELU,
		// Layer normalization of fewer elements is ill-conditioned.
		DModel:        2 * rapid.IntRange(3, 6).Draw(t, "d_model/2"),
		Vocab:         rapid.IntRange(1, 40).Draw(t, "vocab"),
		SegLen:        rapid.IntRange(1, 9).Draw(t, "seg_len"),
		MemLen:        rapid.IntRange(0, 7).Draw(t, "mem_len"),
		ClampLen:      rapid.IntRange(0, 3).Draw(t, "clamp_len"),
		PreLNorm:      rapid.Bool().Draw(t, "pre_lnorm"),
		DEmbed:        rapid.IntRange(0, 12).Draw(t, "d_embed"),
		DivVal:        rapid.IntRange(0, 3).Draw(t, "div_val"),
		ClusterTables: rapid.Bool().Draw(t, "cluster_tables"),
		UntieSoftmax:  rapid.Bool().Draw(t, "untie_softmax"),
	}
	for at := 1; at < c.Vocab && len(c.Cutoffs) < 5; {
		if at += rapid.IntRange(0, c.Vocab).Draw(t, "gap"); at < c.Vocab {
			c.Cutoffs = append(c.Cutoffs, at)
		}
		at++
	}
	// With embeddings of width 1, all inputs are multiples of one vector. If this vector is short,
	// float32 normalizes it less exactly than the reference.
	if c.DEmbed == 1 {
		c.DEmbed = 2
	}
	for c.embedWidth(len(c.Cutoffs)) < 2 {
		c.Cutoffs = c.Cutoffs[1:]
	}
	c.TieProjs = rapid.SliceOfN(rapid.Bool(), 0, len(c.Cutoffs)+1).Draw(t, "tie_projs")
	require.NoError(t, c.Validate())
	return c
}

func TestWordModelsOfAnyShapeAgreeWithTheReference(t *testing.T) {
	x := newExec(t, 2)
	rapid.Check(t, func(rt *rapid.T) {
		c, seed := drawWords(rt), rapid.Uint64().Draw(rt, "seed")
		m, fast := randomModel(t, c, seed)
		ids := randomTokens(c.SegLen+1, c.Vocab, seed)
		seg := NewSegment(c, 1, c.SegLen)
		seg.Begin(x, m, fast, NewMemory(c, 1))
		seg.Extend(x, ids[:c.SegLen])
		grads := m.Layout.Slices(make([]float32, m.Layout.Size))
		nll, logp := make([]float32, c.SegLen), make([]float32, c.Vocab)
		seg.NLL(0, ids[1:], nll)

		ref, none := newReference(m, fast), make([][][]float64, c.NLayer)
		want, _ := ref.forward(ids[:c.SegLen], none)
		for i, row := range want {
			require.InDelta(rt, -row[ids[i+1]], nll[i], 5e-5)
			seg.LogProbs(i, 0, logp)
			require.InDeltaSlice(rt, row, logp, 5e-5)
		}
		seg.Backward(x, ids[1:], grads)
		loss := func() (sum float64) {
			logp, _ := ref.forward(ids[:c.SegLen], none)
			for i := range logp {
				sum -= logp[i][ids[i+1]] / float64(len(logp))
			}
			return sum
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		for i, tensor := range m.Layout.Tensors {
			j := rng.IntN(tensor.Size)
			largest := 0.0
			for _, g := range grads[i] {
				largest = max(largest, math.Abs(float64(g)))
			}
			require.InDelta(rt, slope(&ref.w[tensor.Off+j], loss), grads[i][j], 1e-3*largest+2e-6,
				"%s[%d]", tensor.Name, j)
		}
	})
}

func slope(at *float64, f func() float64) float64 {
	const h = 1e-5
	keep := *at
	*at = keep + h
	up := f()
	*at = keep - h
	down := f()
	*at = keep
	return (up - down) / (2 * h)
}

// wide is a word-level model with matrix products that are large enough to be divided among
// threads.
var wide = Config{
	NLayer: 1, DModel: 24, NHead: 2, DHead: 12, DInner: 40, Vocab: 1500, SegLen: 90, MemLen: 30,
	Cutoffs: []int{200, 500}, DivVal: 2, TieProjs: []bool{false, true, false},
}

func TestThreadsChangeNoBitOfAWordModel(t *testing.T) {
	m, fast := randomModel(t, wide, 3)
	ids := randomTokens(2*wide.SegLen+1, wide.Vocab, 4)
	results := map[int][]uint32{}
	for _, threads := range []int{1, 2, 5} {
		piece := func() int { return 37 / threads }
		results[threads] = scoreSegments(newExec(t, threads), m, fast, ids, piece)
	}
	require.Equal(t, results[1], results[2])
	require.Equal(t, results[1], results[5])
}

// Losses must have the same bits for any block size. Gradients must agree up to the rounding of
// their sums.
func TestBlockSizeOfTailChangesNoBit(t *testing.T) {
	m, fast := randomModel(t, wide, 5)
	x := newExec(t, 2)
	ids := randomTokens(wide.SegLen+1, wide.Vocab, 6)
	ids, targets := ids[:wide.SegLen], ids[1:]
	run := func(elements int) ([]float32, Grads) {
		seg := NewSegment(wide, 1, wide.SegLen)
		seg.tail = seg.tail[:elements]
		seg.Begin(x, m, fast, NewMemory(wide, 1))
		seg.Extend(x, ids)
		nll, grads := make([]float32, len(targets)), m.Layout.Slices(make([]float32, m.Layout.Size))
		seg.NLL(0, targets, nll)
		seg.Backward(x, targets, grads)
		return nll, grads
	}
	nll, grads := run(90 * 1000)
	for _, rows := range []int{1, 7} {
		small, smallGrads := run(rows * 1000)
		require.Equal(t, nll, small)
		for i, tensor := range m.Layout.Tensors {
			require.InDeltaSlice(t, grads[i], smallGrads[i], 1e-5, tensor.Name)
		}
	}
}

// Scoring must compute only the tails that contain targets. All other tails have NaN weights here,
// and the loss must still be a number.
func TestOnlyTheTailsOfTargetsAreComputed(t *testing.T) {
	c := shapes["adaptive"]
	m, _ := randomModel(t, c, 8)
	for _, name := range []string{
		"word_emb.emb_layers.2.weight", "word_emb.emb_projs.2", "crit.out_layers.2.bias",
	} {
		w := m.Tensor(m.Layout.Index(name))
		for j := range w {
			w[j] = float32(math.NaN())
		}
	}
	x := newExec(t, 1)
	seg, nll := NewSegment(c, 1, c.SegLen), make([]float32, 3)
	seg.Begin(x, m, nil, NewMemory(c, 1))
	seg.Extend(x, []int32{1, 5, 8})
	seg.NLL(0, []int32{3, 8, 4}, nll)
	for _, v := range nll {
		require.False(t, math.IsNaN(float64(v)))
	}
	grads := m.Layout.Slices(make([]float32, m.Layout.Size))
	seg.Backward(x, []int32{3, 8, 4}, grads)
	for i, tensor := range m.Layout.Tensors {
		for _, g := range grads[i] {
			require.False(t, g != g, tensor.Name)
		}
	}
	seg.NLL(0, []int32{12}, nll)
	require.True(t, math.IsNaN(float64(nll[0])))
}

func BenchmarkWords(b *testing.B) {
	c, err := Named("wt103-16l")
	require.NoError(b, err)
	m, err := NewModel(c)
	require.NoError(b, err)
	m.Init(1)
	x := kernel.NewExec(1)
	defer x.Close()
	const rows = 50
	seg, mem := NewSegment(c, 1, rows), NewMemory(c, 1)
	mem.Len = c.MemLen
	// The token frequencies follow Zipf's law, like words in a text.
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, uint64(c.Vocab-1))
	ids, nll, logp := make([]int32, rows+1), make([]float32, rows), make([]float32, c.Vocab)
	for i := range ids {
		ids[i] = int32(zipf.Uint64())
	}
	grads := make(Grads, len(m.Layout.Tensors))
	for i, tensor := range m.Layout.Tensors {
		if tensor.IsMatrix() && tensor.Name[:5] == "layer" {
			grads[i] = make([]float32, tensor.Size)
		}
	}
	forward := func() {
		seg.Begin(x, m, nil, mem)
		seg.Extend(x, ids[:rows])
	}
	for name, f := range map[string]func(){
		"forward":      forward,
		"nll":          func() { seg.NLL(0, ids[1:], nll) },
		"backward":     func() { seg.Backward(x, ids[1:], grads) },
		"distribution": func() { seg.LogProbs(0, 0, logp) },
	} {
		forward()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
