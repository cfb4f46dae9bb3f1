package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// table returns the effective weights of a cluster in the softmax, (tokens, E_i), as a right
// operand. With tied weights this is the table of embeddings, so its fast weights M affect both
// uses.
func (s *Segment) table(k *cluster) kernel.Matrix {
	return s.weight(k.out).RowRange(k.first, k.first+k.size())
}

// lower projects hidden states to the width of a cluster's embeddings, h P, into the rows of buf
// from `from` on. Without a projection it returns the hidden states themselves.
func (s *Segment) lower(
	x *Exec, k *cluster, hidden kernel.Matrix, buf []float32, from int,
) kernel.Matrix {
	if k.outProj == none {
		return hidden
	}
	low := rowsOf(buf, from, from+hidden.Rows, k.width)
	x.MulNN(low, hidden, s.weight(k.outProj), false)
	return low
}

// biasOf returns the effective bias of a cluster's logits.
func (s *Segment) biasOf(k *cluster) []float32 { return k.part(s.effective[k.bias], 1) }

// projected holds hidden states before and after lower, and their gradients. Without a projection
// both are the same.
type projected struct {
	hidden, low   kernel.Matrix
	dhidden, dlow kernel.Matrix
}

// tableBackward sets p.dlow, and sets the gradients of a cluster's table and bias, or adds to
// them if acc: dE = dlogitsᵀ low, db = the sum of dlogits' rows, dlow = dlogits E.
func (s *Segment) tableBackward(
	x *Exec, k *cluster, dlogits kernel.Matrix, p projected, grads Grads, acc bool,
) {
	s.sumColumns(x, k.part(grads[k.bias], 1), dlogits.Data, dlogits.Stride, dlogits.Rows, acc)
	if g := k.part(grads[k.out], k.width); g != nil {
		x.MulTN(kernel.Mat(g, k.size(), k.width), dlogits, p.low, acc)
	}
	x.MulNN(p.dlow, dlogits, s.table(k), false)
}

// lowerBackward sets p.dhidden, and adds to the gradient of a cluster's projection:
// dP += hiddenᵀ dlow, dhidden = dlow Pᵀ.
func (s *Segment) lowerBackward(x *Exec, k *cluster, p projected, grads Grads) {
	if k.outProj == none {
		return
	}
	if g := grads[k.outProj]; g != nil {
		x.MulTN(kernel.Mat(g, s.cfg.DModel, k.width), p.hidden, p.dlow, true)
	}
	x.MulNT(p.dhidden, p.dlow, s.weight(k.outProj), false)
}

// Cluster describes a range of the vocabulary, to estimate work or memory. The first cluster is
// the head, the others are the tails.
type Cluster struct {
	Tokens, Width int // rows and columns of its embeddings
	// Embedding names the tensor of the embeddings, and Table the tensor of the softmax's weights.
	// Input and Output name the projections between embeddings and hidden states. Tied tensors have
	// the same name. Without projections, Input and Output are "".
	Embedding, Table, Input, Output string
}

// Clusters returns the ranges of the vocabulary, in the order of their tokens.
func (l *Layout) Clusters() []Cluster {
	all := make([]Cluster, len(l.clusters))
	for i, k := range l.clusters {
		all[i] = Cluster{
			Tokens: k.size(), Width: k.width,
			Embedding: l.Tensors[k.emb].Name, Table: l.Tensors[k.out].Name,
		}
		if k.proj != none {
			all[i].Input, all[i].Output = l.Tensors[k.proj].Name, l.Tensors[k.outProj].Name
		}
	}
	return all
}

// TailWeights names the tensor of the head's columns for the tails. A layout without tails has no
// such tensor.
const TailWeights = "crit.cluster_weight"
