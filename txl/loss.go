package txl

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// project computes the logits of rows n0..n1. The softmax has the embedding's weights, so M
// acts on both uses.
func (s *Segment) project(x *Exec, n0, n1 int) {
	D, V := s.cfg.DModel, s.cfg.Vocab
	x.MulNT(rowsOf(s.logits, n0*s.B, n1*s.B, V), rowsOf(s.hidden, n0*s.B, n1*s.B, D), s.weight(s.model.Layout.emb), false)
	s.addBias(x, s.logits, s.vec[s.model.Layout.outBias], n0*s.B, n1*s.B)
}

// NLL writes the negative log-likelihood in nats of targets [k,B] for rows
// from, from+1, ... of the segment. NLL and LogProbs must be called before the next Begin.
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

// lossBackward sets s.dx = dL/dhidden and the gradients of the softmax layer:
// dlogits = (softmax(logits) - onehot(target)) / (n B), 0 where the target is below 0.
func (s *Segment) lossBackward(x *Exec, targets []int32, grads Grads) {
	D, V, rows := s.cfg.DModel, s.cfg.Vocab, s.n*s.B
	copy(s.dlogits[:rows*V], s.logits)
	s.pass.softmax = softmaxPass{s.dlogits, V, 1 / float32(rows)}
	s.eachRow(x, &s.pass.softmax, 0, rows)
	for k, target := range targets {
		if target < 0 {
			clear(s.dlogits[k*V : (k+1)*V])
			continue
		}
		s.dlogits[k*V+int(target)] -= 1 / float32(rows)
	}
	dlogits := rowsOf(s.dlogits, 0, rows, V)
	s.sumRows(x, grads[s.model.Layout.outBias], s.dlogits, rows)
	if g := grads[s.model.Layout.emb]; g != nil {
		x.MulTN(kernel.Mat(g, V, D), dlogits, rowsOf(s.hidden, 0, rows, D), false)
	}
	x.MulNN(rowsOf(s.dx, 0, rows, D), dlogits, s.weight(s.model.Layout.emb), false)
}

// embedBackward adds the part of the embedding's use as the first layer's input to the gradient
// of the tied weights.
func (s *Segment) embedBackward(x *Exec, grads Grads) {
	g := grads[s.model.Layout.emb]
	if g == nil {
		return
	}
	D, rows := s.cfg.DModel, s.n*s.B
	s.drop.rows(siteEmbedding, 0, s.dx, D, 0, rows)
	scale := float32(math.Sqrt(float64(D)))
	for r := range rows {
		id := int(s.toks[r])
		x.Axpy(g[id*D:(id+1)*D], scale, s.dx[r*D:(r+1)*D])
	}
}
