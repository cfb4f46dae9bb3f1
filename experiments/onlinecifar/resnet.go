package main

import (
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// filters are the numbers of filters in the four residual blocks (appendix A of the paper). Each
// block has three convolutions, so the network has 12 convolutional layers.
var filters = [4]int{64, 96, 128, 256}

const convolutions = 3

// A network is a residual network (He et al., 2016): four blocks, the mean over positions, and a
// softmax layer. Each block adds the result of three 3x3 convolutions of its input to a 1x1
// convolution of its input. Max pooling after a block halves the width and height of maps that are
// larger than 2 pixels.
type network struct {
	convs     []*tape.Var // 3x3 convolutions; only these layers have fast weights
	shortcuts []*tape.Var
	norms     []*Norm
	head      *tape.Var // softmax layer, of shape (labels, channels)
	bias      *tape.Var
}

// newNetwork returns a random network. Parameter narrow divides the numbers of filters.
func newNetwork(narrow, labels int, r *rand.Rand) *network {
	n, in := &network{}, 3
	for _, f := range filters {
		out := max(2, f/narrow)
		for i := range convolutions {
			n.convs = append(n.convs, he(out, taps*[]int{in, out, out}[i], r))
			n.norms = append(n.norms, newNorm(out))
		}
		n.shortcuts = append(n.shortcuts, he(out, in, r))
		n.norms = append(n.norms, newNorm(out))
		in = out
	}
	n.newHead(labels, in, r)
	return n
}

func (n *network) newHead(labels, channels int, r *rand.Rand) {
	n.head, n.bias = tape.Glorot(labels, channels, r), tape.New(1, labels)
}

// he returns random filters from a normal distribution with variance 2/cols (He et al., 2015).
func he(rows, cols int, r *rand.Rand) *tape.Var {
	v := tape.New(rows, cols)
	for i := range v.Value {
		v.Value[i] = math.Sqrt(2/float64(cols)) * r.NormFloat64()
	}
	return v
}

func (n *network) others() []*tape.Var {
	all := append([]*tape.Var{n.head, n.bias}, n.shortcuts...)
	for _, norm := range n.norms {
		all = append(all, norm.Gain, norm.Bias)
	}
	return all
}

func (n *network) params() []*tape.Var { return append(n.others(), n.convs...) }

// forward returns the logits, of shape (images, labels). If moving is true, the normalization uses
// the moving statistics, and the result has no gradients.
func (n *network) forward(t *tape.Tape, x Maps, moving bool) *tape.Var {
	for b, shortcut := range n.shortcuts {
		norms := n.norms[b*(convolutions+1):]
		h := x
		for i := range convolutions {
			h = norms[i].apply(t, conv(t, h, n.convs[b*convolutions+i]), moving)
			if i < convolutions-1 {
				h.Var = t.ReLU(h.Var)
			}
		}
		s := Maps{t.MatMul(shortcut, x.Var), x.Images, x.Side}
		s = norms[convolutions].apply(t, s, moving)
		x = Maps{t.ReLU(t.Add(h.Var, s.Var)), x.Images, x.Side}
		if x.Side > 2 {
			x = pool(t, x)
		}
	}
	return t.AddRow(t.MatMulT(average(t, x), n.head), n.bias)
}

// gradient adds the gradients of the mean cross-entropy to the gradients of the parameters. It
// returns the predicted labels.
func (n *network) gradient(x Maps, labels []int) []int {
	var t tape.Tape
	logits := n.forward(&t, x, false)
	weights := make([]float64, len(labels))
	for i := range weights {
		weights[i] = 1 / float64(len(labels))
	}
	t.Backward(t.CrossEntropy(logits, labels, weights))
	return argmax(logits)
}

func (n *network) predict(x Maps, moving bool) []int {
	var t tape.Tape
	return argmax(n.forward(&t, x, moving))
}

func argmax(logits *tape.Var) []int {
	best := make([]int, logits.Rows)
	for i := range best {
		row := logits.Row(i)
		for j, v := range row {
			if v > row[best[i]] {
				best[i] = j
			}
		}
	}
	return best
}

// copy returns a network with equal parameters. Its moving statistics are reset (appendix A of the
// paper).
func (n *network) copy() *network {
	c := &network{convs: copies(n.convs), shortcuts: copies(n.shortcuts),
		head: duplicate(n.head), bias: duplicate(n.bias)}
	for _, norm := range n.norms {
		d := &Norm{Gain: duplicate(norm.Gain), Bias: duplicate(norm.Bias)}
		d.Reset()
		c.norms = append(c.norms, d)
	}
	return c
}

func copies(all []*tape.Var) []*tape.Var {
	out := make([]*tape.Var, len(all))
	for i, v := range all {
		out[i] = duplicate(v)
	}
	return out
}

func duplicate(v *tape.Var) *tape.Var {
	d := tape.New(v.Rows, v.Cols)
	copy(d.Value, v.Value)
	return d
}
