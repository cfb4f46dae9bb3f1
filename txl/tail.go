package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

func (s *Segment) tailBlock(k *cluster, rows []int32) []int32 {
	return rows[:min(len(rows), len(s.tail)/k.size())]
}

// tailLogits computes a tail's logits for some rows of the segment. It returns the logits, and the
// hidden states of these rows. Both are valid until the next use of s.ff, s.low and s.tail.
func (s *Segment) tailLogits(
	x *Exec, k *cluster, rows []int32, first int,
) (kernel.Matrix, projected) {
	D := s.cfg.DModel
	p := projected{hidden: rowsOf(s.ff, 0, len(rows), D)}
	for j, r := range rows {
		copy(row(p.hidden, j), rowOf(s.hidden, first+int(r), D))
	}
	p.low = s.lower(x, k, p.hidden, s.low, 0)
	logits := rowsOf(s.tail, 0, len(rows), k.size())
	x.MulNT(logits, p.low, s.table(k), false)
	s.addBias(x, s.tail, s.biasOf(k), k.size(), 0, len(rows))
	return logits, p
}

// addTailNLL adds the negative log-likelihood of each target within the tail to nll. nll already
// contains the negative log-likelihood of the tail itself. Target r belongs to row first+r of the
// segment.
func (s *Segment) addTailNLL(k *cluster, first int, targets []int32, nll []float32) {
	s.members = k.members(s.members[:0], targets)
	for rest := s.members; len(rest) > 0; {
		rows := s.tailBlock(k, rest)
		rest = rest[len(rows):]
		logits, _ := s.tailLogits(s.exec, k, rows, first)
		for j, r := range rows {
			y := row(logits, j)
			nll[r] += s.exec.LogSumExp(y) - y[int(targets[r])-k.lo]
		}
	}
}

// tailLogProbs writes the log-probabilities of a tail's tokens after row at of the segment to dst.
// Parameter tail is the log-probability of the tail itself.
func (s *Segment) tailLogProbs(k *cluster, at int, tail float32, dst []float32) {
	low := s.lower(s.exec, k, rowsOf(s.hidden, at, at+1, s.cfg.DModel), s.low, 0)
	s.exec.MulNT(kernel.Mat(dst, 1, k.size()), low, s.table(k), false)
	s.addBias(s.exec, dst, s.biasOf(k), k.size(), 0, 1)
	lse := s.exec.LogSumExp(dst)
	for j, v := range dst {
		dst[j] = tail + (v - lse)
	}
}

// tailBackward adds a tail's part of dL/dhidden to s.dx. It also sets the gradients of the tail's
// table and bias. It recomputes the logits.
func (s *Segment) tailBackward(x *Exec, k *cluster, targets []int32, grads Grads) {
	D, share := s.cfg.DModel, 1/float32(s.n*s.B)
	s.members = k.members(s.members[:0], targets)
	if len(s.members) == 0 {
		clear(k.part(grads[k.bias], 1))
		clear(k.part(grads[k.out], k.width))
		return
	}
	for done := 0; done < len(s.members); {
		rows := s.tailBlock(k, s.members[done:])
		dlogits, p := s.tailLogits(x, k, rows, 0)
		s.pass.softmax = softmaxPass{s.tail, k.size(), share}
		s.eachRow(x, &s.pass.softmax, 0, len(rows))
		for j, r := range rows {
			row(dlogits, j)[int(targets[r])-k.lo] -= share
		}
		p.dhidden = rowsOf(s.dy, 0, len(rows), D)
		p.dlow = p.dhidden
		if k.outProj != none {
			p.dlow = rowsOf(s.dlow, 0, len(rows), k.width)
		}
		s.tableBackward(x, k, dlogits, p, grads, done > 0)
		s.lowerBackward(x, k, p, grads)
		for j, r := range rows {
			dx := rowOf(s.dx, int(r), D)
			x.Add(dx, dx, row(p.dhidden, j))
		}
		done += len(rows)
	}
}
