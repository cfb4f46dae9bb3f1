package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// embed writes the first layer's input of rows n0 to n1-1: sqrt(D) times the tokens' embeddings. A
// cluster with a projection P uses P e, where e is the narrower embedding from W+M.
func (s *Segment) embed(x *Exec, n0, n1 int) {
	D, r0, r1 := s.cfg.DModel, n0*s.B, n1*s.B
	input := s.layers[0].in[s.mlen*s.B*D:]
	rows, tokens := input[r0*D:r1*D], s.toks[r0:r1]
	scale := s.embedScale()
	for i := range s.model.Layout.clusters {
		k := &s.model.Layout.clusters[i]
		s.members = k.members(s.members[:0], tokens)
		if len(s.members) == 0 {
			continue
		}
		if k.proj == none {
			for _, r := range s.members {
				s.embedding(k, rowOf(rows, int(r), D), tokens[r], scale)
			}
			continue
		}
		wide := rowsOf(s.ff, 0, len(s.members), D)
		x.MulNT(wide, s.embeddings(k, tokens), s.weight(k.proj), false)
		for j, r := range s.members {
			scaleInto(rowOf(rows, int(r), D), row(wide, j), scale)
		}
	}
	s.drop.rows(siteEmbedding, 0, input, D, r0, r1)
}

func (s *Segment) embedScale() float32 { return float32(math.Sqrt(float64(s.cfg.DModel))) }

func (s *Segment) embedding(k *cluster, dst []float32, token int32, factor float32) {
	at := (k.first + int(token) - k.lo) * k.width
	w, f := s.model.Tensor(k.emb)[at:at+k.width], s.fastOf(k.emb)
	if f == nil {
		scaleInto(dst, w, factor)
		return
	}
	for j, m := range f[at : at+k.width] {
		dst[j] = (w[j] + m) * factor
	}
}

func (s *Segment) embeddings(k *cluster, tokens []int32) kernel.Matrix {
	low := rowsOf(s.low, 0, len(s.members), k.width)
	for j, r := range s.members {
		s.embedding(k, row(low, j), tokens[r], 1)
	}
	return low
}

func scaleInto(dst, src []float32, factor float32) {
	for j, v := range src {
		dst[j] = v * factor
	}
}

// embedBackward adds the gradient of the first layer's input to the gradients of embedding tables
// and projections.
func (s *Segment) embedBackward(x *Exec, grads Grads) {
	D, rows, scale := s.cfg.DModel, s.n*s.B, s.embedScale()
	s.drop.rows(siteEmbedding, 0, s.dx, D, 0, rows)
	for i := range s.model.Layout.clusters {
		k := &s.model.Layout.clusters[i]
		table := k.part(grads[k.emb], k.width)
		if k.out != k.emb { // a tied table already has the gradient of the softmax
			clear(table)
		}
		s.members = k.members(s.members[:0], s.toks[:rows])
		switch {
		case len(s.members) == 0:
		case k.proj != none:
			s.embedProjectedBackward(x, k, table, grads)
		case table != nil:
			for _, r := range s.members {
				x.Axpy(k.embeddingIn(table, s.toks[r]), scale, rowOf(s.dx, int(r), D))
			}
		}
	}
}

// embedProjectedBackward is embedBackward for a cluster with a projection P. With the embeddings e
// and dy = sqrt(D) dL/dinput, the gradients are
//
//	dP += dyᵀ e       de = dy P
func (s *Segment) embedProjectedBackward(x *Exec, k *cluster, table []float32, grads Grads) {
	D, scale := s.cfg.DModel, s.embedScale()
	dy := rowsOf(s.dy, 0, len(s.members), D)
	for j, r := range s.members {
		scaleInto(row(dy, j), rowOf(s.dx, int(r), D), scale)
	}
	if g := grads[k.proj]; g != nil {
		x.MulTN(kernel.Mat(g, D, k.width), dy, s.embeddings(k, s.toks), true)
	}
	if table == nil {
		return
	}
	de := rowsOf(s.dlow, 0, len(s.members), k.width)
	x.MulNN(de, dy, s.weight(k.proj), false)
	for j, r := range s.members {
		g := k.embeddingIn(table, s.toks[r])
		x.Add(g, g, row(de, j))
	}
}
