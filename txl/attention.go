package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// attention is the parallel task of one head, forward or backward. Like
// rowPass it lives in the segment.
type attention struct {
	do     func(s *Segment, w *kernel.Exec, a *attention, head int)
	l      *layer
	index  int // of the layer
	n0, n1 int
	seg    *Segment
}

// Do implements kernel.Task.
func (a *attention) Do(w *kernel.Exec, head int) { a.do(a.seg, w, a, head) }

func (s *Segment) runHeads(x *kernel.Exec, a attention) {
	s.attn = a
	s.attn.seg = s
	x.Parallel(s.cfg.NHead, &s.attn)
}

// attend computes rows n0..n1 of layer i's attention with its residual and,
// post-norm, its normalisation:
//
//	score(i,j) = ((q_i + r_w_bias)·k_j + (q_i + r_r_bias)·r_(i+m-j)) / sqrt(d),  j <= i+m
//	x = LN(h + o_net(softmax(score) v))     or with pre-norm   h + o_net(...), q k v from LN(c)
func (s *Segment) attend(x *kernel.Exec, i, n0, n1 int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, hd := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead
	m0, m1 := (s.mlen+n0)*s.B, (s.mlen+n1)*s.B // the new rows among the keys
	if s.cfg.PreLNorm {
		s.layerNorm(x, &l.norm1, l.cn, l.in, ix.gain1, ix.bias1, m0, m1)
	}
	input := kernel.Mat(s.keyInput(l)[m0*D:m1*D], m1-m0, D)
	wqkv := s.weight(ix.qkv)
	x.MulNT(rowsOf(l.q, n0*s.B, n1*s.B, hd), input, wqkv.RowRange(0, hd), false)
	x.MulNT(rowsOf(l.kv, m0, m1, 2*hd), input, wqkv.RowRange(hd, 3*hd), false)
	s.biasQueries(x, l, n0, n1)
	s.runHeads(x, attention{do: attendHead, l: l, index: i, n0: n0, n1: n1})

	x.MulNT(rowsOf(l.y1, n0*s.B, n1*s.B, D), rowsOf(l.av, n0*s.B, n1*s.B, hd), s.weight(ix.o), false)
	s.dropRows(siteAttentionOut, i, l.y1, D, n0*s.B, n1*s.B)
	s.add(x, l.y1, l.y1, l.in[s.mlen*s.B*D:], D, n0*s.B, n1*s.B)
	if s.cfg.PreLNorm {
		s.layerNorm(x, &l.norm2, l.x, l.y1, ix.gain2, ix.bias2, n0*s.B, n1*s.B)
	} else {
		s.layerNorm(x, &l.norm1, l.x, l.y1, ix.gain1, ix.bias1, n0*s.B, n1*s.B)
	}
}

func rowsOf(buf []float32, lo, hi, width int) kernel.Matrix {
	return kernel.Mat(buf[lo*width:hi*width], hi-lo, width)
}

// biasQueries sets qu = q + r_w_bias and qv = q + r_r_bias on rows n0..n1.
func (s *Segment) biasQueries(x *kernel.Exec, l *layer, n0, n1 int) {
	lay := s.model.Layout
	s.runRows(x, rowPass{do: biasQueryRows, x: l.q, y: s.qu, z: s.qv, gain: s.vec[lay.rwBias], bias: s.vec[lay.rrBias],
		width: s.cfg.NHead * s.cfg.DHead, from: n0 * s.B, to: n1 * s.B})
}

func biasQueryRows(p *rowPass, lo, hi int) {
	for r := lo; r < hi; r++ {
		qu, qv := p.y[r*p.width:(r+1)*p.width], p.z[r*p.width:(r+1)*p.width]
		for j, q := range p.x[r*p.width : (r+1)*p.width] {
			qu[j], qv[j] = q+p.gain[j], q+p.bias[j]
		}
	}
}

// The views of one head's share of the buffers. Rows of one stream lie B rows
// apart.

// queries views rows n0..n1 of stream b, head h, in a [T*B,H*d] buffer.
func (s *Segment) queries(buf []float32, b, h, n0, n1 int) kernel.Matrix {
	d, hd := s.cfg.DHead, s.cfg.NHead*s.cfg.DHead
	return kernel.Matrix{Data: buf[(n0*s.B+b)*hd+h*d:], Rows: n1 - n0, Cols: d, Stride: s.B * hd}
}

// keys views the first klen keys (or values, with part 1) of stream b, head h,
// in a [(MemLen+T)*B,2*H*d] buffer.
func (s *Segment) keys(buf []float32, part, b, h, klen int) kernel.Matrix {
	d, hd := s.cfg.DHead, s.cfg.NHead*s.cfg.DHead
	return kernel.Matrix{Data: buf[b*2*hd+part*hd+h*d:], Rows: klen, Cols: d, Stride: s.B * 2 * hd}
}

// distances views r, or its gradient, for head h: the distances that queries
// n0..n1 can meet, the farthest first. Query i meets key j at row j + n1-1-i.
func (s *Segment) distances(buf []float32, h, n1 int) kernel.Matrix {
	d := s.cfg.DHead
	return s.byDistance(buf).RowRange(s.T-n1, s.T+s.mlen).ColRange(h*d, (h+1)*d)
}

// probs views the probabilities of rows n0..n1 of stream b, head h.
func (s *Segment) probs(buf []float32, b, h, n0, n1, klen int) kernel.Matrix {
	stride := s.cfg.maxKeys(s.T)
	off := ((b*s.cfg.NHead+h)*s.T + n0) * stride
	return kernel.Matrix{Data: buf[off:], Rows: n1 - n0, Cols: klen, Stride: stride}
}

// perHead views a scratch buffer [H][T,MemLen+T].
func (s *Segment) perHead(buf []float32, h, rows, cols int) kernel.Matrix {
	return s.probs(buf, 0, h, 0, rows, cols)
}

// window is the range of keys query i may look at.
func (s *Segment) window(i int) (lo, hi int) {
	hi = i + s.mlen + 1
	if s.cfg.SameLength {
		lo = max(0, hi-s.cfg.MemLen)
	}
	return lo, hi
}

func row(m kernel.Matrix, i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

func attendHead(s *Segment, w *kernel.Exec, a *attention, h int) {
	klen := s.mlen + a.n1
	scale := float32(1 / math.Sqrt(float64(s.cfg.DHead)))
	for b := range s.B {
		prob := s.probs(a.l.prob, b, h, a.n0, a.n1, klen)
		dist := s.perHead(s.dist, h, a.n1-a.n0, klen)
		w.MulNT(prob, s.queries(s.qu, b, h, a.n0, a.n1), s.keys(a.l.kv, 0, b, h, klen), false)
		w.MulNT(dist, s.queries(s.qv, b, h, a.n0, a.n1), s.distances(a.l.r, h, a.n1), false)
		for i := a.n0; i < a.n1; i++ {
			s.softmaxRow(row(prob, i-a.n0), row(dist, i-a.n0)[a.n1-1-i:], i, scale)
			// Backward reads the columns of keys that come later, too: the
			// segment before has left its own there.
			clear(prob.Data[(i-a.n0)*prob.Stride:][klen : s.mlen+s.T])
		}
		if s.drop.Attention > 0 {
			s.dropAttention(a.index, b, h, a.n0, dist, prob)
			prob = dist
		}
		w.MulNN(s.queries(a.l.av, b, h, a.n0, a.n1), prob, s.keys(a.l.kv, 1, b, h, klen), false)
	}
}

// softmaxRow turns query i's content scores into probabilities: byDistance
// starts at the distance of key 0.
func (s *Segment) softmaxRow(prob, byDistance []float32, i int, scale float32) {
	lo, hi := s.window(i)
	for j := lo; j < hi; j++ {
		prob[j] += byDistance[j]
	}
	clear(prob[:lo])
	clear(prob[hi:])
	kernel.Softmax(prob[lo:hi], scale)
}

// attendBackward takes dy1, the gradient of h + o before any normalisation of
// it (in s.dy; post-norm already differentiated), and adds the attention's
// part of dL/dh to s.dx, which holds the residual's part.
func (s *Segment) attendBackward(x *kernel.Exec, i int, grads Grads) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, hd, rows, keys := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead, s.n*s.B, (s.mlen+s.n)*s.B
	do := kernel.Mat(s.dy[:rows*D], rows, D)
	s.dropRows(siteAttentionOut, i, s.dy, D, 0, rows)
	if g := grads[ix.o]; g != nil {
		x.MulTN(kernel.Mat(g, D, hd), do, rowsOf(l.av, 0, rows, hd), false)
	}
	x.MulNN(rowsOf(s.dav, 0, rows, hd), do, s.weight(ix.o), false)

	s.biasQueries(x, l, 0, s.n)
	clear(s.dr[:(s.T-s.n)*hd]) // distances no query has met
	s.runHeads(x, attention{do: attendHeadBackward, l: l, index: i, n0: 0, n1: s.n})
	s.addBiasGrads(x, grads)
	if g := grads[ix.r]; g != nil {
		x.MulTN(kernel.Mat(g, hd, D), s.byDistance(s.dr), s.positions(), false)
	}
	dq, dkv := rowsOf(s.dq, 0, rows, hd), rowsOf(s.dkv, 0, keys, 2*hd)
	input := s.keyInput(l)
	if g := grads[ix.qkv]; g != nil {
		gm := kernel.Mat(g, 3*hd, D)
		x.MulTN(gm.RowRange(0, hd), dq, rowsOf(input, s.mlen*s.B, keys, D), false)
		x.MulTN(gm.RowRange(hd, 3*hd), dkv, rowsOf(input, 0, keys, D), false)
	}
	wq, wkv := s.weight(ix.qkv).RowRange(0, hd), s.weight(ix.qkv).RowRange(hd, 3*hd)
	if !s.cfg.PreLNorm {
		dx := rowsOf(s.dx, 0, rows, D)
		x.MulNN(dx, dq, wq, true)
		x.MulNN(dx, dkv.RowRange(s.mlen*s.B, keys), wkv, true)
		return
	}
	// The memory's rows are normalised here too: they count for gain and bias.
	dn := rowsOf(s.dnorm, 0, keys, D)
	x.MulNN(dn, dkv, wkv, false)
	x.MulNN(dn.RowRange(s.mlen*s.B, keys), dq, wq, true)
	s.layerNormBackward(x, &l.norm1, s.dnorm, s.dnorm, l.in, ix.gain1, ix.bias1, grads, keys)
	s.add(x, s.dx, s.dx, s.dnorm[s.mlen*s.B*D:], D, 0, rows)
}

func attendHeadBackward(s *Segment, w *kernel.Exec, a *attention, h int) {
	klen := s.mlen + s.n
	scale := float32(1 / math.Sqrt(float64(s.cfg.DHead)))
	r, dr := s.distances(a.l.r, h, s.n), s.distances(s.dr, h, s.n)
	for b := range s.B {
		prob := s.probs(a.l.prob, b, h, 0, s.n, klen)
		dprob, dist := s.perHead(s.dprob, h, s.n, klen), s.perHead(s.dist, h, s.n, klen)
		dav := s.queries(s.dav, b, h, 0, s.n)
		kept := prob
		if s.drop.Attention > 0 {
			s.dropAttention(a.index, b, h, 0, dist, prob)
			kept = dist
		}
		w.MulTN(s.keys(s.dkv, 1, b, h, klen), kept, dav, false)
		w.MulNT(dprob, dav, s.keys(a.l.kv, 1, b, h, klen), false)
		if s.drop.Attention > 0 {
			s.dropAttention(a.index, b, h, 0, dprob, dprob)
		}
		for i := range s.n {
			s.softmaxRowBackward(row(dprob, i), row(prob, i), row(dist, i), i, scale)
		}
		qu, qv := s.queries(s.qu, b, h, 0, s.n), s.queries(s.qv, b, h, 0, s.n)
		w.MulTN(s.keys(s.dkv, 0, b, h, klen), dprob, qu, false)
		w.MulNN(s.queries(s.dq, b, h, 0, s.n), dprob, s.keys(a.l.kv, 0, b, h, klen), false)
		w.MulTN(dr, dist, qv, b > 0)
		w.MulNN(s.queries(s.dqv, b, h, 0, s.n), dist, r, false)
	}
}

// softmaxRowBackward turns query i's dL/dprob into dL/dscore in place, and
// writes it once more ordered by distance.
func (s *Segment) softmaxRowBackward(dprob, prob, byDistance []float32, i int, scale float32) {
	lo, hi := s.window(i)
	dot := kernel.Dot(dprob[lo:hi], prob[lo:hi])
	for j := lo; j < hi; j++ {
		dprob[j] = float32(prob[j]*(dprob[j]-dot)) * scale
	}
	clear(dprob[:lo])
	clear(dprob[hi:])
	shift := s.n - 1 - i
	clear(byDistance[:shift])
	copy(byDistance[shift:], dprob[:hi])
	// hi + shift is klen: the row is full.
}

// addBiasGrads adds this layer's part of the gradients of r_w_bias and
// r_r_bias, which all layers share, and dq = dqu + dqv.
func (s *Segment) addBiasGrads(x *kernel.Exec, grads Grads) {
	lay, rows, hd := s.model.Layout, s.n*s.B, s.cfg.NHead*s.cfg.DHead
	for k, part := range [2]struct {
		index int
		dq    []float32
	}{{lay.rwBias, s.dq}, {lay.rrBias, s.dqv}} {
		g := grads[part.index]
		if g == nil {
			continue
		}
		sum := s.dbias[k*hd : (k+1)*hd]
		s.sumRows(x, sum, part.dq, rows, hd)
		for j, v := range sum {
			g[j] += v
		}
	}
	s.add(x, s.dq, s.dq, s.dqv, hd, 0, rows)
}
