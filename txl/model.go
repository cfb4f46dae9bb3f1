package txl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Tensor describes one named weight in the flat array of weights. The weight of a linear layer has
// shape (out, in).
type Tensor struct {
	Name      string
	Shape     []int
	Off, Size int
}

// IsMatrix reports whether the tensor is the right operand of a matrix product. Other tensors are
// vectors, such as biases and normalization gains.
func (t Tensor) IsMatrix() bool { return len(t.Shape) == 2 && !strings.HasSuffix(t.Name, "_bias") }

// Layout gives the position of each weight in the flat array of weights. The names are those in the
// state dict of the reference implementation (PyTorch).
type Layout struct {
	Tensors []Tensor
	Size    int // total number of elements

	byName map[string]int

	layers []layerIndex
	vocabulary
}

type layerIndex struct {
	// The attention biases are shared by all layers unless UntieR is set.
	rwBias, rrBias          int
	qkv, r, o, gain1, bias1 int
	w1, b1, w2, b2          int
	gain2, bias2            int
}

// NewLayout returns the layout of a valid configuration.
func NewLayout(c Config) *Layout {
	l := &Layout{byName: map[string]int{}}
	hd := c.NHead * c.DHead
	l.addEmbeddings(c)
	var rwBias, rrBias int
	addBiases := func(prefix string) {
		rwBias = l.add(prefix+"r_w_bias", c.NHead, c.DHead)
		rrBias = l.add(prefix+"r_r_bias", c.NHead, c.DHead)
	}
	if !c.UntieR {
		addBiases("")
	}
	for i := range c.NLayer {
		attn, ff := fmt.Sprintf("layers.%d.dec_attn.", i), fmt.Sprintf("layers.%d.pos_ff.", i)
		if c.UntieR {
			addBiases(attn)
		}
		l.layers = append(l.layers, layerIndex{
			rwBias: rwBias, rrBias: rrBias,

			qkv:   l.add(attn+"qkv_net.weight", 3*hd, c.DModel),
			r:     l.add(attn+"r_net.weight", hd, c.DModel),
			o:     l.add(attn+"o_net.weight", c.DModel, hd),
			gain1: l.add(attn+"layer_norm.weight", c.DModel),
			bias1: l.add(attn+"layer_norm.bias", c.DModel),
			w1:    l.add(ff+"CoreNet.0.weight", c.dHidden(), c.DModel),
			b1:    l.add(ff+"CoreNet.0.bias", c.dHidden()),
			w2:    l.add(ff+"CoreNet.3.weight", c.DModel, c.DInner),
			b2:    l.add(ff+"CoreNet.3.bias", c.DModel),
			gain2: l.add(ff+"layer_norm.weight", c.DModel),
			bias2: l.add(ff+"layer_norm.bias", c.DModel),
		})
	}
	l.addSoftmax(c)
	return l
}

func (l *Layout) addEmbeddings(c Config) {
	lo := 0
	for i, hi := range append(slices.Clone(c.Cutoffs), c.Vocab) {
		k := cluster{lo: lo, hi: hi, width: c.embedWidth(i), proj: none, outProj: none}
		switch {
		case c.tablePerCluster():
			k.emb = l.add(fmt.Sprintf("word_emb.emb_layers.%d.weight", i), k.size(), k.width)
			k.proj = l.add(fmt.Sprintf("word_emb.emb_projs.%d", i), c.DModel, k.width)
		case i == 0:
			k.emb = l.add("word_emb.emb_layers.0.weight", c.Vocab, k.width)
			if k.width != c.DModel {
				k.proj = l.add("word_emb.emb_projs.0", c.DModel, k.width)
			}
		default:
			k.emb, k.proj, k.first = l.clusters[0].emb, l.clusters[0].proj, lo
		}
		l.clusters = append(l.clusters, k)
		lo = hi
	}
}

// addSoftmax adds the tensors of the softmax, except those shared with the input.
func (l *Layout) addSoftmax(c Config) {
	l.clusterWeight, l.clusterBias = none, none
	if n := l.tails(); n > 0 {
		l.clusterWeight = l.add(TailWeights, n, l.clusters[0].width)
		l.clusterBias = l.add("crit.cluster_bias", n)
	}
	for i := range l.clusters {
		k := &l.clusters[i]
		k.out = k.emb
		switch {
		case !c.UntieSoftmax:
		case c.tablePerCluster():
			k.out = l.add(fmt.Sprintf("crit.out_layers.%d.weight", i), k.size(), k.width)
		case i == 0:
			k.out = l.add("crit.out_layers.0.weight", c.Vocab, k.width)
		default:
			k.out = l.clusters[0].out
		}
		switch {
		case c.tablePerCluster():
			k.bias = l.add(fmt.Sprintf("crit.out_layers.%d.bias", i), k.size())
		case i == 0:
			k.bias = l.add("crit.out_layers.0.bias", c.Vocab)
		default:
			k.bias = l.clusters[0].bias
		}
		switch {
		case k.proj == none:
		case i < len(c.TieProjs) && c.TieProjs[i]:
			k.outProj = k.proj
		default:
			k.outProj = l.add(fmt.Sprintf("crit.out_projs.%d", i), c.DModel, k.width)
		}
	}
}

func (l *Layout) add(name string, shape ...int) int {
	size := 1
	for _, n := range shape {
		size *= n
	}
	l.byName[name] = len(l.Tensors)
	l.Tensors = append(l.Tensors, Tensor{Name: name, Shape: shape, Off: l.Size, Size: size})
	l.Size += size
	return len(l.Tensors) - 1
}

// Index returns the index of the named tensor in Tensors, or -1.
func (l *Layout) Index(name string) int {
	if i, ok := l.byName[name]; ok {
		return i
	}
	return -1
}

// Slices cuts a flat array of Size elements into one slice for each tensor. Backward accepts such
// slices for the gradients of all weights.
func (l *Layout) Slices(arena []float32) [][]float32 {
	s := make([][]float32, len(l.Tensors))
	for i, t := range l.Tensors {
		s[i] = arena[t.Off : t.Off+t.Size : t.Off+t.Size]
	}
	return s
}

// Model is a configuration with the slow weights W in one flat array. A serving model is read-only
// and shared by all sessions.
type Model struct {
	Config Config
	Layout *Layout
	W      []float32
}

// NewModel returns a model whose weights are all zero.
func NewModel(c Config) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	l := NewLayout(c)
	return &Model{Config: c, Layout: l, W: kernel.NewLarge(l.Size)}, nil
}

// UntieSoftmax returns an equivalent model whose softmax has separate tables, copied from the
// embedding tables. It returns m if m already has separate tables.
func (m *Model) UntieSoftmax() *Model {
	if m.Config.UntieSoftmax {
		return m
	}
	c := m.Config
	c.UntieSoftmax = true
	l := NewLayout(c)
	untied := &Model{Config: c, Layout: l, W: make([]float32, l.Size)}
	for i, t := range m.Layout.Tensors {
		copy(untied.Tensor(l.Index(t.Name)), m.Tensor(i))
	}
	for _, k := range l.clusters {
		copy(untied.Tensor(k.out), untied.Tensor(k.emb))
	}
	return untied
}

// Tensor returns the slow weights of tensor i.
func (m *Model) Tensor(i int) []float32 {
	t := m.Layout.Tensors[i]
	return m.W[t.Off : t.Off+t.Size : t.Off+t.Size]
}

// initStd is the standard deviation of initial weights, except projections between the embeddings'
// width and the model's. For these projections it is initStdProj. Both values are from the
// reference implementation.
const initStd, initStdProj = 0.02, 0.01

// Init draws all weights from the seed. Matrices and attention biases are normally distributed.
// Normalization gains are 1, and other biases are 0.
func (m *Model) Init(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x7478_6c69_6e69_7400))
	for i, t := range m.Layout.Tensors {
		w := m.Tensor(i)
		switch {
		case len(t.Shape) == 2:
			std := initStd
			if strings.Contains(t.Name, "_projs.") {
				std = initStdProj
			}
			for j := range w {
				w[j] = float32(rng.NormFloat64() * std)
			}
		case strings.HasSuffix(t.Name, "layer_norm.weight"):
			for j := range w {
				w[j] = 1
			}
		default:
			clear(w)
		}
	}
}
