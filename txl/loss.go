package txl

import (
	"fmt"
	"math"
	"slices"

	"github.com/lmserve/lmserve/internal/kernel"
)

// project computes the logits of rows n0..n1: softmax weights are the
// embedding's, tied, so M acts on both uses.
func (s *Segment) project(x *kernel.Exec, n0, n1 int) {
	D, V := s.cfg.DModel, s.cfg.Vocab
	x.MulNT(rowsOf(s.logits, n0*s.B, n1*s.B, V), rowsOf(s.hidden, n0*s.B, n1*s.B, D), s.weight(s.model.Layout.emb), false)
	s.addBias(x, s.logits, s.vec[s.model.Layout.outBias], V, n0*s.B, n1*s.B)
}

// NLL writes the negative log-likelihood in nats of targets [k,B] for rows
// from, from+1, ... of the segment. Like LogProbs it must be called before
// the next Begin.
func (s *Segment) NLL(from int, targets []int32, nll []float32) {
	if len(targets) > len(nll) || from*s.B+len(targets) > s.n*s.B {
		panic(fmt.Sprintf("txl: nll of %d targets from row %d into %d, segment has %d rows of batch %d", len(targets), from, len(nll), s.n, s.B))
	}
	V := s.cfg.Vocab
	for k, target := range targets {
		logits := s.logits[(from*s.B+k)*V : (from*s.B+k+1)*V]
		nll[k] = s.vectors.LogSumExp(logits) - logits[target]
	}
}

// LogProbs writes the normalised log-probabilities (nats) of the token after
// row i of stream b to dst [V].
func (s *Segment) LogProbs(i, b int, dst []float32) {
	V := s.cfg.Vocab
	logits := s.logits[(i*s.B+b)*V : (i*s.B+b+1)*V]
	lse := s.vectors.LogSumExp(logits)
	for j, v := range logits {
		dst[j] = v - lse
	}
}

// Backward sets grads to the gradient of the mean negative log-likelihood (in
// nats, over all rows and streams) of targets [n,B], with respect to every
// wanted weight at its effective value: dL/d(W+M), which is dL/dW and dL/dM
// alike. grads has an entry a tensor of the layout; nil ones are skipped, and what
// serves only them is not computed.
func (s *Segment) Backward(x *kernel.Exec, targets []int32, grads Grads) {
	if len(targets) != s.n*s.B || s.n == 0 {
		panic(fmt.Sprintf("txl: backward with %d targets, expected %d (and at least a row)", len(targets), s.n*s.B))
	}
	lay := s.model.Layout
	for _, shared := range []int{lay.rwBias, lay.rrBias} {
		clear(grads[shared])
	}
	lowest := s.lowestHalf(grads)
	s.lossBackward(x, targets, grads)
	s.dropRows(siteOutput, 0, s.dx, s.cfg.DModel, 0, s.n*s.B)
	for half := 2*len(s.layers) - 1; half >= lowest && half >= 0; half-- {
		if half%2 == 1 {
			s.feedForwardBackward(x, half/2, grads)
		} else {
			s.attendBackward(x, half/2, grads, half > lowest)
		}
	}
	if lowest < 0 {
		s.embedBackward(x, grads)
	}
}

// lowestHalf is where backward may stop: the lowest half of a layer with a weight whose
// gradient is wanted, counted from the bottom (layer i's attention is 2i, its
// feed-forward 2i+1). The embedding is below them all; 2 NLayer means none.
func (s *Segment) lowestHalf(grads Grads) int {
	lay := s.model.Layout
	wanted := func(tensors ...int) bool {
		return slices.ContainsFunc(tensors, func(i int) bool { return grads[i] != nil })
	}
	switch {
	case wanted(lay.emb):
		return -1
	case wanted(lay.rwBias, lay.rrBias):
		return 0
	}
	for i, l := range lay.layers {
		// The normalisation between the halves is differentiated with the upper one,
		// the one in front of attention with the lower.
		if wanted(l.qkv, l.r, l.o) || s.cfg.PreLNorm && wanted(l.gain1, l.bias1) {
			return 2 * i
		}
		if wanted(l.gain1, l.bias1, l.w1, l.b1, l.w2, l.b2, l.gain2, l.bias2) {
			return 2*i + 1
		}
	}
	return 2 * len(lay.layers)
}

// lossBackward sets s.dx = dL/dhidden and the gradients of the softmax layer:
// dlogits = (softmax(logits) - onehot(target)) / (n B).
func (s *Segment) lossBackward(x *kernel.Exec, targets []int32, grads Grads) {
	D, V, rows := s.cfg.DModel, s.cfg.Vocab, s.n*s.B
	copy(s.dlogits[:rows*V], s.logits)
	s.runRows(x, rowPass{do: softmaxRows, y: s.dlogits, width: V, to: rows})
	for k, target := range targets {
		s.dlogits[k*V+int(target)] -= 1 / float32(rows)
	}
	dlogits := rowsOf(s.dlogits, 0, rows, V)
	s.sumRows(x, grads[s.model.Layout.outBias], s.dlogits, rows, V)
	if g := grads[s.model.Layout.emb]; g != nil {
		x.MulTN(kernel.Mat(g, V, D), dlogits, rowsOf(s.hidden, 0, rows, D), false)
	}
	x.MulNN(rowsOf(s.dx, 0, rows, D), dlogits, s.weight(s.model.Layout.emb), false)
}

func softmaxRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	scale := 1 / float32(p.to)
	for r := lo; r < hi; r++ {
		y := p.y[r*p.width : (r+1)*p.width]
		w.Softmax(y, 1)
		w.Scale(y, scale)
	}
}

// embedBackward adds the embedding's own use to the tied gradient.
func (s *Segment) embedBackward(x *kernel.Exec, grads Grads) {
	g := grads[s.model.Layout.emb]
	if g == nil {
		return
	}
	D, rows := s.cfg.DModel, s.n*s.B
	s.dropRows(siteEmbedding, 0, s.dx, D, 0, rows)
	scale := float32(math.Sqrt(float64(D)))
	for r := range rows {
		id := int(s.toks[r])
		x.Axpy(g[id*D:(id+1)*D], scale, s.dx[r*D:(r+1)*D])
	}
}
