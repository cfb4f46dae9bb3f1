package txl

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// oracle builds one whole layer in gorgonia, in float64: relative attention with memory, both layer
// normalizations and feed-forward, with tied embedding and softmax loss. Gorgonia's automatic
// differentiation is an independent check of the hand-written backward pass. Matrix products with
// ones replace broadcasts, so that only operations with trusted derivatives remain.
type oracle struct {
	g      *G.ExprGraph
	m      *Model
	params []oracleParam
	nodes  int
}

// oracleParam is a node for part of a tensor: element (i,j) of the node is element at(i,j) of the
// tensor.
type oracleParam struct {
	node   *G.Node
	tensor int
	at     func(i, j int) int
}

func (o *oracle) param(name string, rows, cols int, at func(i, j int) int) *G.Node {
	index := o.m.Layout.Index(name)
	w := o.m.Tensor(index)
	data := make([]float64, rows*cols)
	for i := range rows {
		for j := range cols {
			data[i*cols+j] = float64(w[at(i, j)])
		}
	}
	n := o.matrix(name, rows, cols, data)
	o.params = append(o.params, oracleParam{n, index, at})
	return n
}

// matrix makes a node with a unique name, because gorgonia merges nodes of equal name and shape.
func (o *oracle) matrix(name string, rows, cols int, data []float64) *G.Node {
	o.nodes++
	return G.NewMatrix(o.g, G.Float64, G.WithShape(rows, cols),
		G.WithName(fmt.Sprint(name, " ", o.nodes)),
		G.WithValue(tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data))))
}

func (o *oracle) constant(rows, cols int, f func(i, j int) float64) *G.Node {
	data := make([]float64, rows*cols)
	for i := range rows {
		for j := range cols {
			data[i*cols+j] = f(i, j)
		}
	}
	return o.matrix("constant", rows, cols, data)
}

func (o *oracle) ones(rows, cols int) *G.Node {
	return o.constant(rows, cols, func(_, _ int) float64 { return 1 })
}

func (o *oracle) mul(a, b *G.Node) *G.Node  { return G.Must(G.Mul(a, b)) }
func (o *oracle) mulT(a, b *G.Node) *G.Node { return G.Must(G.Mul(a, G.Must(G.Transpose(b)))) }
func (o *oracle) add(a, b *G.Node) *G.Node  { return G.Must(G.Add(a, b)) }

func (o *oracle) rowVector(v *G.Node, rows int) *G.Node { return o.mul(o.ones(rows, 1), v) }

func (o *oracle) vector(name string, n int) *G.Node {
	return o.param(name, 1, n, func(_, j int) int { return j })
}

func (o *oracle) layerNorm(x *G.Node, rows int, gain, bias *G.Node) *G.Node {
	D := o.m.Config.DModel
	mean := o.constant(D, D, func(_, _ int) float64 { return 1 / float64(D) })
	xc := G.Must(G.Sub(x, o.mul(x, mean)))
	variance := o.mul(G.Must(G.HadamardProd(xc, xc)), mean)
	eps := o.constant(rows, D, func(_, _ int) float64 { return LayerNormEps })
	y := G.Must(G.HadamardDiv(xc, G.Must(G.Sqrt(o.add(variance, eps)))))
	return o.add(G.Must(G.HadamardProd(y, o.rowVector(gain, rows))), o.rowVector(bias, rows))
}

func (o *oracle) softmax(x *G.Node, cols int) *G.Node {
	e := G.Must(G.Exp(x))
	return G.Must(G.HadamardDiv(e, o.mul(e, o.ones(cols, cols))))
}

func (o *oracle) attention(head int, h, c *G.Node, n, klen int) *G.Node {
	cfg := o.m.Config
	d, D, m := cfg.DHead, cfg.DModel, klen-n
	block := func(name string, part int) *G.Node {
		off := (part*cfg.NHead + head) * d
		return o.param(name, d, D, func(i, j int) int { return (off+i)*D + j })
	}
	const qkv, rnet = "layers.0.dec_attn.qkv_net.weight", "layers.0.dec_attn.r_net.weight"
	q, k, v := o.mulT(h, block(qkv, 0)), o.mulT(c, block(qkv, 1)), o.mulT(c, block(qkv, 2))
	ref := newReference(o.m, nil)
	positions := o.constant(klen, D,
		func(distance, j int) float64 { return ref.position(distance)[j] })
	r := o.mulT(positions, block(rnet, 0))
	bias := func(name string) *G.Node {
		return o.rowVector(o.param(name, 1, d, func(_, j int) int { return head*d + j }), n)
	}
	score := o.mulT(o.add(q, bias("r_w_bias")), k)
	byDistance := o.mulT(o.add(q, bias("r_r_bias")), r)
	for i := range n { // The scores for distance i+m-j move to column j of row i.
		pick := o.constant(n, n, func(a, b int) float64 { return indicator(a == i && b == i) })
		shift := o.constant(klen, klen,
			func(distance, j int) float64 { return indicator(distance == i+m-j) })
		score = o.add(score, o.mul(o.mul(pick, byDistance), shift))
	}
	scale := o.constant(n, klen, func(_, _ int) float64 { return 1 / math.Sqrt(float64(d)) })
	mask := o.constant(n, klen, func(i, j int) float64 { return -1e3 * indicator(j > i+m) })
	p := o.softmax(o.add(G.Must(G.HadamardProd(score, scale)), mask), klen)
	hd := cfg.NHead * d
	wo := o.param("layers.0.dec_attn.o_net.weight", D, d,
		func(i, j int) int { return i*hd + head*d + j })
	return o.mulT(o.mul(p, v), wo)
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (o *oracle) loss(input, target []int32, memory *G.Node, m int) *G.Node {
	c, n, V, D := o.m.Config, len(input), o.m.Config.Vocab, o.m.Config.DModel
	emb := o.param("word_emb.emb_layers.0.weight", V, D, func(i, j int) int { return i*D + j })
	h := o.mul(o.constant(n, V,
		func(i, j int) float64 { return math.Sqrt(float64(D)) * indicator(int(input[i]) == j) }),
		emb)
	keys := G.Must(G.Concat(0, memory, h))
	y := h
	for head := range c.NHead {
		y = o.add(y, o.attention(head, h, keys, n, m+n))
	}
	const attn, ff = "layers.0.dec_attn.layer_norm.", "layers.0.pos_ff."
	x := o.layerNorm(y, n, o.vector(attn+"weight", D), o.vector(attn+"bias", D))
	w1 := o.param(ff+"CoreNet.0.weight", c.DInner, D, func(i, j int) int { return i*D + j })
	w2 := o.param(ff+"CoreNet.3.weight", D, c.DInner, func(i, j int) int { return i*c.DInner + j })
	inner := G.Must(G.Rectify(o.add(o.mulT(x, w1),
		o.rowVector(o.vector(ff+"CoreNet.0.bias", c.DInner), n))))
	y2 := o.add(x, o.add(o.mulT(inner, w2), o.rowVector(o.vector(ff+"CoreNet.3.bias", D), n)))
	out := o.layerNorm(y2, n, o.vector(ff+"layer_norm.weight", D), o.vector(ff+"layer_norm.bias",
		D))
	logits := o.add(o.mulT(out, emb), o.rowVector(o.vector("crit.out_layers.0.bias", V), n))
	picked := o.constant(n, V,
		func(i, j int) float64 { return -1 / float64(n) * indicator(int(target[i]) == j) })
	return G.Must(G.Sum(G.Must(G.HadamardProd(picked, G.Must(G.Log(o.softmax(logits, V)))))))
}

func TestBackwardAgreesWithGorgonia(t *testing.T) {
	c := Config{NLayer: 1, DModel: 6, NHead: 2, DHead: 4, DInner: 10, Vocab: 9, SegLen: 5,
		MemLen: 4}
	m, _ := randomModel(t, c, 41)
	x := newExec(t, 1)
	ids := randomTokens(2*c.SegLen+1, c.Vocab, 8)
	seg, mem := NewSegment(c, 1, c.SegLen), NewMemory(c, 1)
	seg.Begin(x, m, nil, mem)
	seg.Extend(x, ids[:c.SegLen])
	seg.Remember(mem)
	input, target := ids[c.SegLen:2*c.SegLen], ids[c.SegLen+1:]
	grads := m.Layout.Slices(make([]float32, m.Layout.Size))
	seg.Begin(x, m, nil, mem)
	seg.Extend(x, input)
	nll := make([]float32, c.SegLen)
	seg.NLL(0, target, nll)
	seg.Backward(x, target, grads)

	o := &oracle{g: G.NewGraph(), m: m}
	memory := o.constant(mem.Len, c.DModel,
		func(i, j int) float64 { return float64(mem.Layers[0][i*c.DModel+j]) })
	loss := o.loss(input, target, memory, mem.Len)
	var nodes []*G.Node
	for _, p := range o.params {
		nodes = append(nodes, p.node)
	}
	_, err := G.Grad(loss, nodes...)
	require.NoError(t, err)
	vm := G.NewTapeMachine(o.g, G.BindDualValues(nodes...))
	defer vm.Close()
	require.NoError(t, vm.RunAll())

	var mean float64
	for _, v := range nll {
		mean += float64(v) / float64(len(nll))
	}
	require.InDelta(t, loss.Value().Data(), mean, 1e-5)
	seen := make([]int, len(grads))
	for _, p := range o.params {
		value, err := p.node.Grad()
		require.NoError(t, err)
		want, shape := value.Data().([]float64), p.node.Shape()
		for i := range shape[0] {
			for j := range shape[1] {
				require.InDelta(t, want[i*shape[1]+j], grads[p.tensor][p.at(i, j)], 2e-5,
					"%s (%d,%d)", p.node.Name(), i, j)
				seen[p.tensor]++
			}
		}
	}
	for i, tensor := range m.Layout.Tensors {
		require.Equal(t, tensor.Size, seen[i], "every element of %s is compared", tensor.Name)
	}
}
