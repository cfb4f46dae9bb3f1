package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// feedForward computes rows n0 to n1-1 of the second half of layer i,
//
//	out = LN(x + W2 act(W1 x + b1) + b2)        (pre-norm: y1 + W2 act(W1 LN(y1) + b1) + b2)
//
// and writes them to the input of the next layer.
func (s *Segment) feedForward(x *Exec, i, n0, n1 int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, F, F1 := s.cfg.DModel, s.cfg.DInner, s.cfg.dHidden()
	r0, r1 := n0*s.B, n1*s.B
	x.MulNT(rowsOf(l.pre, r0, r1, F1), rowsOf(l.x, r0, r1, D), s.weight(ix.w1), false)
	s.pass.activate = activatePass{cfg: &s.cfg, act: l.act, pre: l.pre, bias: s.effective[ix.b1]}
	s.eachRow(x, &s.pass.activate, r0, r1)
	s.drop.rows(siteInner, i, l.act, F, r0, r1)

	x.MulNT(rowsOf(s.ff, r0, r1, D), rowsOf(l.act, r0, r1, F), s.weight(ix.w2), false)
	out := s.output(i)
	end := &s.pass.residual
	*end = residualPass{width: D, drop: &s.drop, branch: s.ff, bias: s.effective[ix.b2],
		residual: l.x, sum: l.y2,
		normed: out, norm: &l.norm2, normGain: s.effective[ix.gain2],
		normOffset: s.effective[ix.bias2],
		site:       siteFeedForward, layer: i}
	if s.cfg.PreLNorm {
		end.residual, end.sum, end.norm = l.y1, out, nil
	}
	s.eachRow(x, end, r0, r1)
	if i+1 == len(s.layers) {
		s.drop.rows(siteOutput, 0, out, D, r0, r1)
	}
}

// feedForwardBackward takes dL/dout in s.dx. It replaces s.dx by dL/dy1, where y1 = h + o, and
// copies the result to s.dy. s.dx is then the gradient of h along the residual connection, and s.dy
// is the gradient of o.
func (s *Segment) feedForwardBackward(x *Exec, i int, grads Grads) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, F, F1, rows := s.cfg.DModel, s.cfg.DInner, s.cfg.dHidden(), s.n*s.B
	if !s.cfg.PreLNorm {
		s.layerNormBackward(x, l.norm2, s.dx, s.dx, l.y2, ix.gain2, ix.bias2, grads, rows)
	}
	copy(s.dy[:rows*D], s.dx)
	dff := rowsOf(s.dy, 0, rows, D)
	s.drop.rows(siteFeedForward, i, s.dy, D, 0, rows)
	s.sumRows(x, grads[ix.b2], s.dy, rows)
	if g := grads[ix.w2]; g != nil {
		x.MulTN(kernel.Mat(g, D, F), dff, rowsOf(l.act, 0, rows, F), false)
	}
	x.MulNN(rowsOf(s.dinner, 0, rows, F), dff, s.weight(ix.w2), false)
	s.drop.rows(siteInner, i, s.dinner, F, 0, rows)
	s.pass.activateBackward = activateBackwardPass{cfg: &s.cfg, dpre: s.dhid, dact: s.dinner,
		pre: l.pre}
	s.eachRow(x, &s.pass.activateBackward, 0, rows)
	s.sumRows(x, grads[ix.b1], s.dhid, rows)
	dhid := rowsOf(s.dhid, 0, rows, F1)
	if g := grads[ix.w1]; g != nil {
		x.MulTN(kernel.Mat(g, F1, D), dhid, rowsOf(l.x, 0, rows, D), false)
	}
	if s.cfg.PreLNorm {
		x.MulNN(rowsOf(s.dsub, 0, rows, D), dhid, s.weight(ix.w1), false)
		s.layerNormBackward(x, l.norm2, s.dsub, s.dsub, l.y1, ix.gain2, ix.bias2, grads, rows)
		s.add(x, s.dx, s.dx, s.dsub, D, 0, rows)
	} else {
		x.MulNN(rowsOf(s.dx, 0, rows, D), dhid, s.weight(ix.w1), true)
		s.layerNormBackward(x, l.norm1, s.dx, s.dx, l.y1, ix.gain1, ix.bias1, grads, rows)
	}
	copy(s.dy[:rows*D], s.dx)
}
