package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// table returns the effective softmax weights of a cluster, a matrix of shape (tokens, width). With
// tied weights it is also the table of embeddings, so fast weights affect both uses.
func (s *Segment) table(k *cluster) kernel.Matrix {
	return s.weight(k.out).RowRange(k.first, k.first+k.size())
}

// lower projects hidden states to the width of a cluster's embeddings. The result is in the rows of
// buf that begin at row `from`. Without a projection, lower returns hidden itself.
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

func (s *Segment) biasOf(k *cluster) []float32 { return k.part(s.effective[k.bias], 1) }

// projected holds hidden states before and after projection by lower, and their gradients. Without
// a projection, hidden and low are the same matrix.
type projected struct {
	hidden, low   kernel.Matrix
	dhidden, dlow kernel.Matrix
}

// tableBackward computes the gradients of a cluster's table and bias, and p.dlow: dE = dlogitsᵀ
// low, db = the sum of the rows of dlogits, dlow = dlogits E. If acc is true, it adds to the
// gradients of table and bias.
func (s *Segment) tableBackward(
	x *Exec, k *cluster, dlogits kernel.Matrix, p projected, grads Grads, acc bool,
) {
	s.sumColumns(x, k.part(grads[k.bias], 1), dlogits.Data, dlogits.Stride, dlogits.Rows, acc)
	if g := k.part(grads[k.out], k.width); g != nil {
		x.MulTN(kernel.Mat(g, k.size(), k.width), dlogits, p.low, acc)
	}
	x.MulNN(p.dlow, dlogits, s.table(k), false)
}

// lowerBackward sets p.dhidden and adds to the gradient of a cluster's projection P: dP += hiddenᵀ
// dlow, dhidden = dlow Pᵀ. Without a projection it does nothing.
func (s *Segment) lowerBackward(x *Exec, k *cluster, p projected, grads Grads) {
	if k.outProj == none {
		return
	}
	if g := grads[k.outProj]; g != nil {
		x.MulTN(kernel.Mat(g, s.cfg.DModel, k.width), p.hidden, p.dlow, true)
	}
	x.MulNT(p.dhidden, p.dlow, s.weight(k.outProj), false)
}

// Cluster describes one range of the vocabulary in an adaptive softmax, to estimate work or memory.
// The first cluster is the head; the others are the tails.
type Cluster struct {
	Tokens, Width int // shape of the embeddings: rows and columns
	// Embedding and Table name the tensors of the embeddings and of the softmax's weights. Input
	// and Output name the projections from embeddings to hidden states and back; without
	// projections they are "". Tied tensors have the same name.
	Embedding, Table, Input, Output string
}

// Clusters returns the clusters of the vocabulary, in the order of their tokens.
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

// TailWeights names the tensor of softmax weights that select a tail: one row for each tail. A
// layout without tails has no such tensor.
const TailWeights = "crit.cluster_weight"
