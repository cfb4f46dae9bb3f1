package txl

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// project computes the head's logits of rows n0 to n1-1. The tails' logits are computed only when a
// target or a whole distribution needs them.
func (s *Segment) project(x *Exec, n0, n1 int) {
	lay, D, r0, r1 := s.model.Layout, s.cfg.DModel, n0*s.B, n1*s.B
	head, width := &lay.clusters[0], lay.headWidth()
	own := head.size()
	low := s.lower(x, head, rowsOf(s.hidden, r0, r1, D), s.headLow, r0)
	logits := rowsOf(s.logits, r0, r1, width)
	x.MulNT(logits.ColRange(0, own), low, s.table(head), false)
	s.addBias(x, s.logits, s.biasOf(head), width, r0, r1)
	if lay.tails() > 0 {
		x.MulNT(logits.ColRange(own, width), low, s.weight(lay.clusterWeight), false)
		s.addBias(x, s.logits[own:], s.effective[lay.clusterBias], width, r0, r1)
	}
}

// NLL writes the negative log-likelihoods, in nats, of targets [k,B] to nll. The targets belong to
// the segment's rows from, from+1, and so on. NLL and LogProbs use the Exec of the last Extend, and
// need the segment's results, which the next Begin discards. NLL computes only tails with targets,
// and only for the rows of these targets.
func (s *Segment) NLL(from int, targets []int32, nll []float32) {
	if len(targets) > len(nll) || from*s.B+len(targets) > s.n*s.B {
		panic(fmt.Sprintf("txl: NLL: %d targets from row %d on do not fit into %d results, or "+
			"into a segment of %d rows with batch %d", len(targets), from, len(nll), s.n, s.B))
	}
	lay, first := s.model.Layout, from*s.B
	for r, target := range targets {
		logits := rowOf(s.logits, first+r, lay.headWidth())
		nll[r] = s.exec.LogSumExp(logits) - logits[lay.headColumn(target)]
	}
	for i := range lay.tails() {
		s.addTailNLL(&lay.clusters[i+1], first, targets, nll)
	}
}

// LogProbs writes the log-probabilities, in nats, of the token after row i of stream b to dst [V].
func (s *Segment) LogProbs(i, b int, dst []float32) {
	lay, at := s.model.Layout, i*s.B+b
	logits := rowOf(s.logits, at, lay.headWidth())
	lse := s.exec.LogSumExp(logits)
	for j, v := range logits[:lay.clusters[0].size()] {
		dst[j] = v - lse
	}
	for i := range lay.tails() {
		k := &lay.clusters[i+1]
		s.tailLogProbs(k, at, logits[lay.headWidth()-1-i]-lse, dst[k.lo:k.hi])
	}
}

// lossBackward sets s.dx = dL/dhidden and the gradients of the softmax weights. It adds to the
// gradients of projections. given contains the logits' gradients passed to BackwardOf, or nil for
// the softmax loss.
func (s *Segment) lossBackward(x *Exec, targets []int32, given []float32, grads Grads) {
	if given == nil {
		s.logitsBackward(x, targets)
	} else {
		s.logitsGiven(x, targets, given)
	}
	s.headBackward(x, grads)
	for i := range s.model.Layout.tails() {
		s.tailBackward(x, &s.model.Layout.clusters[i+1], targets, grads)
	}
}

// logitsBackward sets s.dlogits = (softmax(logits) - onehot(target)) / (n B). Rows with a negative
// target get 0.
func (s *Segment) logitsBackward(x *Exec, targets []int32) {
	lay, rows := s.model.Layout, s.n*s.B
	width := lay.headWidth()
	copy(s.dlogits[:rows*width], s.logits)
	s.pass.softmax = softmaxPass{s.dlogits, width, 1 / float32(rows)}
	s.eachRow(x, &s.pass.softmax, 0, rows)
	for r, target := range targets {
		dlogits := rowOf(s.dlogits, r, width)
		if target < 0 {
			clear(dlogits)
			continue
		}
		dlogits[lay.headColumn(target)] -= 1 / float32(rows)
	}
}

// logitsGiven sets s.dlogits = given / (n B). Rows with a negative target get 0.
func (s *Segment) logitsGiven(x *Exec, targets []int32, given []float32) {
	width, rows := s.model.Layout.headWidth(), s.n*s.B
	copy(s.dlogits, given)
	x.Scale(s.dlogits[:rows*width], 1/float32(rows))
	for r, target := range targets {
		if target < 0 {
			clear(rowOf(s.dlogits, r, width))
		}
	}
}

// headBackward sets s.dx to the head's part of dL/dhidden, from s.dlogits.
func (s *Segment) headBackward(x *Exec, grads Grads) {
	lay, D, rows := s.model.Layout, s.cfg.DModel, s.n*s.B
	head, width := &lay.clusters[0], lay.headWidth()
	p := projected{hidden: rowsOf(s.hidden, 0, rows, D), dhidden: rowsOf(s.dx, 0, rows, D)}
	p.low, p.dlow = p.hidden, p.dhidden
	if head.outProj != none {
		p.low, p.dlow = rowsOf(s.headLow, 0, rows, head.width), rowsOf(s.dlow, 0, rows, head.width)
	}
	dlogits := rowsOf(s.dlogits, 0, rows, width)
	s.tableBackward(x, head, dlogits.ColRange(0, head.size()), p, grads, false)
	if lay.tails() > 0 {
		tails := dlogits.ColRange(head.size(), width)
		s.sumColumns(x, grads[lay.clusterBias], tails.Data, width, rows, false)
		if g := grads[lay.clusterWeight]; g != nil {
			x.MulTN(kernel.Mat(g, lay.tails(), head.width), tails, p.low, false)
		}
		x.MulNN(p.dlow, tails, s.weight(lay.clusterWeight), true)
	}
	s.lowerBackward(x, head, p, grads)
}
