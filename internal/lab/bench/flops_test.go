package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/txl"
)

// counter counts the operations of a segment, one multiply-add at a time.
type counter struct {
	forward, backward float64
}

// mac counts one multiply-add out += a*b. For backward it counts one more for each factor whose
// gradient is needed.
func (c *counter) mac(a, b bool) {
	c.forward += 2
	if a {
		c.backward += 2
	}
	if b {
		c.backward += 2
	}
}

// matrix counts a product of rows with a weight of shape (out, in). The parameters `input` and
// `weight` tell whose gradients are needed.
func (c *counter) matrix(rows, out, in int, input, weight bool) {
	for range rows {
		for range out {
			for range in {
				c.mac(input, weight)
			}
		}
	}
}

// naive counts the operations of a segment directly from the definition of the model.
func naive(s segment, want wanted) (forward, backward float64) {
	c := &counter{}
	width := s.NHead * s.DHead
	hidden := s.DInner
	if s.Activation == txl.SwiGLU || s.Activation == txl.GeGLU {
		hidden *= 2
	}
	below := s.inputWanted(want)
	for _, tensors := range layersOf(s.Config) {
		has := func(part string) bool { return want(find(tensors, part)) }
		adapted := below
		for _, name := range tensors {
			adapted = adapted || want(name)
		}
		before := c.backward
		qkv, r := has("qkv_net.weight"), has("r_net.weight")
		c.matrix(s.batch*s.rows, 3*width, s.DModel, below, qkv)
		c.matrix(s.batch*s.memory, 2*width, s.DModel, false, qkv && !s.staleKeys)
		c.matrix(s.memory+s.rows, width, s.DModel, false, r)
		for range s.batch * s.NHead * s.DHead {
			for i := range s.rows {
				for j := range s.memory + s.rows {
					if j > i+s.memory || s.SameLength && i+s.memory-j >= s.MemLen {
						continue
					}
					key := qkv && !s.staleKeys || j >= s.memory
					c.mac(true, key) // the query times the key
					c.mac(true, r)   // the query times r
					c.mac(true, key) // the probability times the value
				}
			}
		}
		c.matrix(s.batch*s.rows, s.DModel, width, true, has("o_net.weight"))
		c.matrix(s.batch*s.rows, hidden, s.DModel, true, has("CoreNet.0.weight"))
		c.matrix(s.batch*s.rows, s.DModel, s.DInner, true, has("CoreNet.3.weight"))
		if !adapted {
			c.backward = before
		}
		below = adapted
	}
	c.vocabulary(s, want, below)
	return c.forward, c.backward
}

// vocabulary counts the operations of the input embedding and the softmax. Each cluster gets its
// share of the tokens.
func (c *counter) vocabulary(s segment, want wanted, below bool) {
	clusters, rows := txl.NewLayout(s.Config).Clusters(), s.batch*s.rows
	for i, k := range clusters {
		inputs := rows
		if s.shares != nil {
			inputs = int(math.Round(s.shares[i] * float64(rows)))
		}
		targets := inputs
		if i == 0 {
			targets = rows
		}
		narrow := below
		if k.Input != "" {
			c.matrix(inputs, s.DModel, k.Width, want(k.Embedding), want(k.Input))
			c.matrix(targets, k.Width, s.DModel, below, want(k.Output))
			narrow = below || want(k.Output)
		}
		c.matrix(targets, k.Tokens, k.Width, narrow, want(k.Table))
		if i == 0 {
			c.matrix(targets, len(clusters)-1, k.Width, narrow, want(txl.TailWeights))
		}
	}
}

func layersOf(c txl.Config) [][]string {
	layers := make([][]string, c.NLayer)
	for _, t := range txl.NewLayout(c).Tensors {
		for i := range layers {
			if strings.HasPrefix(t.Name, "layers."+string(rune('0'+i))+".") {
				layers[i] = append(layers[i], t.Name)
			}
		}
	}
	return layers
}

func find(names []string, part string) string {
	for _, n := range names {
		if strings.HasSuffix(n, part) {
			return n
		}
	}
	return ""
}

func drawSegment(t *rapid.T) segment {
	small := rapid.IntRange(1, 4)
	c := txl.Config{
		NLayer: rapid.IntRange(1, 3).Draw(t, "layers"), DModel: 2 * small.Draw(t,
			"half of d_model"), NHead: small.Draw(t, "heads"),
		DHead: small.Draw(t, "d_head"), DInner: small.Draw(t, "d_inner"),
		Vocab: small.Draw(t, "vocab"), SegLen: 4,
		MemLen: rapid.IntRange(0, 5).Draw(t, "mem_len"),
		Activation: rapid.SampledFrom([]string{"", txl.GELU, txl.SwiGLU, txl.GeGLU}).Draw(t,
			"activation"),
	}
	c.SameLength = c.MemLen > 0 && rapid.Bool().Draw(t, "same_length")
	s := segment{Config: c, batch: rapid.IntRange(1, 3).Draw(t, "batch"),
		rows:   small.Draw(t, "rows"),
		memory: rapid.IntRange(0, c.MemLen).Draw(t, "memory")}
	s.staleKeys = rapid.Bool().Draw(t, "stale keys")
	s.UntieSoftmax = rapid.Bool().Draw(t, "untie_softmax")
	if c.Vocab > 2 && rapid.Bool().Draw(t, "words") {
		drawClusters(t, &s)
	}
	return s
}

func drawClusters(t *rapid.T, s *segment) {
	s.Cutoffs = []int{1, 2}
	s.DEmbed = rapid.IntRange(4, 5).Draw(t, "d_embed")
	s.DivVal = rapid.IntRange(1, 2).Draw(t, "div_val")
	s.TieProjs = rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(t, "tie_projs")
	rows := s.batch * s.rows
	first := rapid.IntRange(0, rows).Draw(t, "rows of the head")
	second := rapid.IntRange(0, rows-first).Draw(t, "rows of the first tail")
	for _, n := range []int{first, second, rows - first - second} {
		s.shares = append(s.shares, float64(n)/float64(rows))
	}
}

func TestOperationsAreThoseOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSegment(t)
		require.NoError(t, s.Validate())
		on := map[string]bool{}
		for _, tensor := range txl.NewLayout(s.Config).Tensors {
			if !strings.HasSuffix(tensor.Name, "_bias") &&
				!strings.HasPrefix(tensor.Name, "crit.out_layers") {
				on[tensor.Name] = rapid.Float64Range(0, 1).Draw(t, tensor.Name) < 0.3
			}
		}
		want := func(name string) bool { return on[name] }
		forward, backward := naive(s, want)
		require.InEpsilon(t, forward, s.forward(), 1e-12)
		require.InDelta(t, backward, s.backward(want), 1e-12*forward)
	})
}

// A static model beside an adaptive model computes the layers from the lowest fast weights upward,
// and the softmax. If only the softmax has fast weights, no layer is computed again. If the input
// embedding has fast weights, all layers are.
func TestOperationsBesideFastWeights(t *testing.T) {
	s := segment{Config: txl.Config{
		NLayer: 3, DModel: 4, NHead: 2, DHead: 3, DInner: 5, Vocab: 7, MemLen: 8,
	}, batch: 1, rows: 6, memory: 8}
	attention, feedForward := s.halves()
	for tensor, layers := range map[string]float64{
		"crit.out_layers.0.bias":         0,
		"layers.2.pos_ff.CoreNet.3.bias": feedForward,
		"layers.2.dec_attn.o_net.weight": attention + feedForward,
		"layers.1.pos_ff.CoreNet.0.bias": attention + 2*feedForward,
		"word_emb.emb_layers.0.weight":   3 * (attention + feedForward),
	} {
		got := s.forwardBeside(func(name string) bool { return name == tensor })
		require.InEpsilon(t, layers+s.vocabularyForward(), got, 1e-12, tensor)
	}
}

func TestOperationsOfNamedModels(t *testing.T) {
	c, err := txl.Named("enwik8-12l")
	require.NoError(t, err)
	s := segment{Config: c, batch: 1, rows: 128, memory: 512}
	// Products in each of 12 layers: q, k, v of the text (128x1536x512), k, v of the memory
	// (512x1024x512), r (640x512x512), output (128x512x512), feed-forward (two of 128x2048x512).
	// Attention needs 3 times 512 multiply-adds for each of 128*512 + 128*129/2 pairs. The softmax
	// has one product, 128x256x512.
	macs := 12*(128*1536*512+512*1024*512+640*512*512+3*512*(128*512+128*129/2)+128*512*512+
		2*128*2048*512) + 128*256*512
	require.EqualValues(t, 2*macs, s.forward())
	require.Zero(t, s.backward(func(string) bool { return false }))
	memory := 2. * (512*1024*512 + 640*512*512)
	require.Equal(t, s.forward()-12*memory, s.forwardAfter(func(string) bool { return false }))
	require.Equal(t, s.forward()-11*memory,
		s.forwardAfter(func(name string) bool { return strings.HasPrefix(name, "layers.3.") }))

	branches, err := model.Branches(txl.NewLayout(c), []string{"paper"})
	require.NoError(t, err)
	paper := func(name string) bool {
		for _, b := range branches {
			if b.Name == name {
				return true
			}
		}
		return false
	}
	all := func(string) bool { return true }
	// Gradients of the memory's rows and of the position encoding are not needed.
	none := 2. * 12 * (512*1024*512 + 640*512*512)
	require.Equal(t, 2*s.forward()-none, s.backward(all))
	require.Equal(t, s.backward(all)-12*2*128*512*2048, s.backward(paper), "without CoreNet.3")
}
