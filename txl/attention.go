package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Do implements kernel.Task: it does task i.
func (a *attention) Do(w *Exec, i int) { a.do(a.seg, w, a, i) }

func (s *Segment) runAttention(x *Exec, tasks int, a attention) {
	s.attn = a
	s.attn.seg = s
	x.Reserve(s.room())
	x.Parallel(tasks, &s.attn)
}

// head is one head of one stream. Each row of its matrices belongs to a key.
type head struct {
	b, h   int
	k, v   kernel.Matrix // keys and values
	dk, dv kernel.Matrix // their gradients, in the backward pass
}

type block struct {
	head
	i0, i1 int // the block has queries i0 to i1-1
	klen   int // number of keys that the last query may attend to

	qu, qv kernel.Matrix // q + r_w_bias, q + r_r_bias
	scores scores
	d      scores // gradient of the scores, in the backward pass
	dqv    kernel.Matrix
}

// scores is a matrix of attention scores in a buffer, with a row for each query and a column for
// each key. Before and after each row, `gap` elements are free. byDistance reads the same memory as
// a matrix with one column for each distance between query and key. That matrix begins rows-1
// elements earlier, and its stride is larger by 1. In its row i, key j is in column j + rows-1-i.
// Elements without a key are in the gaps.
type scores struct {
	kernel.Matrix // Data begins with a gap
	gap           int
}

// byKey returns the matrix with one column for each key.
func (s scores) byKey() kernel.Matrix {
	m := s.Matrix
	m.Data = m.Data[s.gap:]
	return m
}

// byDistance returns the matrix with one column for each distance between query and key, in
// descending order.
func (s scores) byDistance() kernel.Matrix {
	m := s.Matrix
	m.Data, m.Stride = m.Data[s.gap-(s.Rows-1):], s.Stride+1
	return m
}

func (s *Segment) scoresIn(buf []float32, rows, keys int) scores {
	return scores{kernel.Matrix{Data: buf[:s.scoresSize(rows)], Rows: rows, Cols: keys,
		Stride: s.cfg.maxKeys(s.T) + s.gap()}, s.gap()}
}

// room returns the number of float32 values of scratch memory that a thread needs for a block and
// its head.
func (s *Segment) room() int {
	return 2*s.scoresSize(s.gap()) + 3*s.gap()*s.cfg.DHead + 4*s.headSize()
}

// headSize returns the number of elements of a copy of a head's keys, or 0 if heads are not copied.
// With several streams, a head's rows lie far apart in memory. Every block of queries reads all
// rows, and reads a copy faster.
func (s *Segment) headSize() int {
	if s.B == 1 {
		return 0
	}
	return s.cfg.maxKeys(s.T) * s.cfg.DHead
}

// head returns head h of stream b with klen keys, without gradients. Copies are at the end of the
// thread's scratch memory.
func (s *Segment) head(w *Exec, a *attention, b, h, klen int) head {
	k := head{b: b, h: h, k: s.keys(a.l.kv, 0, b, h, klen), v: s.keys(a.l.kv, 1, b, h, klen)}
	if s.headSize() > 0 {
		copied := head{b: b, h: h, k: s.headCopy(w, 0, klen), v: s.headCopy(w, 1, klen)}
		for i := range klen {
			copy(row(copied.k, i), row(k.k, i))
			copy(row(copied.v, i), row(k.v, i))
		}
		return copied
	}
	return k
}

// headGrads sets k.dk and k.dv to matrices with arbitrary content. storeGrads stores them after
// they were computed.
func (s *Segment) headGrads(w *Exec, k *head) {
	n := k.k.Rows
	if s.headSize() > 0 {
		k.dk, k.dv = s.headCopy(w, 2, n), s.headCopy(w, 3, n)
	} else {
		k.dk, k.dv = s.keys(s.dkv, 0, k.b, k.h, n), s.keys(s.dkv, 1, k.b, k.h, n)
	}
}

func (s *Segment) storeGrads(a *attention, k *head) {
	if s.headSize() > 0 {
		n := k.dk.Rows
		dk, dv := s.keys(s.dkv, 0, k.b, k.h, n), s.keys(s.dkv, 1, k.b, k.h, n)
		for i := a.firstKey; i < n; i++ {
			copy(row(dk, i), row(k.dk, i))
			copy(row(dv, i), row(k.dv, i))
		}
	}
}

// headCopy returns the memory of copy i of a head with klen keys.
func (s *Segment) headCopy(w *Exec, i, klen int) kernel.Matrix {
	d, size := s.cfg.DHead, s.headSize()
	room := w.Room()
	return kernel.Mat(room[len(room)-(i+1)*size:][:klen*d], klen, d)
}

// block returns the block of queries i0 to i1-1 of a head, in the thread's scratch memory. If the
// layer stores attention probabilities, the scores are in the layer's buffer instead.
func (s *Segment) block(w *Exec, a *attention, of head, i0, i1 int) block {
	l, b, h := a.l, of.b, of.h
	room, d, rows := w.Room(), s.cfg.DHead, i1-i0
	take := func(n int) []float32 {
		p := room[:n]
		room = room[n:]
		return p
	}
	k := block{head: of, i0: i0, i1: i1, klen: s.mlen + i1}
	k.k, k.v = of.k.RowRange(0, k.klen), of.v.RowRange(0, k.klen)
	k.d = s.scoresIn(take(s.scoresSize(rows)), rows, k.klen)
	if len(l.prob) > 0 {
		k.scores = s.scoresIn(l.prob[(b*s.cfg.NHead+h)*s.scoresSize(s.T)+i0*k.d.Stride:], rows,
			k.klen)
	} else {
		k.scores = s.scoresIn(take(s.scoresSize(rows)), rows, k.klen)
	}
	k.qu, k.qv, k.dqv = kernel.Mat(take(rows*d), rows, d), kernel.Mat(take(rows*d), rows, d),
		kernel.Mat(take(rows*d), rows, d)
	q, ix := s.queries(l.q, b, h, i0, i1), s.model.Layout.layers[a.index]
	rw, rr := s.effective[ix.rwBias][h*d:(h+1)*d], s.effective[ix.rrBias][h*d:(h+1)*d]
	for i := range rows {
		w.Add(row(k.qu, i), row(q, i), rw)
		w.Add(row(k.qv, i), row(q, i), rr)
	}
	return k
}

func blocks(n int) int { return (n + queryBlock - 1) / queryBlock }

// attend computes layer i's attention for rows n0 to n1-1, including the residual and, with
// post-norm, the normalization:
//
//	score(i,j) = ((q_i + r_w_bias)·k_j + (q_i + r_r_bias)·r_(i+m-j)) / sqrt(d),  j <= i+m
//	x = LN(h + o_net(softmax(score) v))     with post-norm
//	x = h + o_net(softmax(score) v)         with pre-norm; q, k and v come from LN(c)
//
// h is the layer's input, c is the memory followed by h, and m is the length of the memory.
func (s *Segment) attend(x *Exec, i, n0, n1 int) {
	s.projectRows(x, i, n0, n1)
	a := attention{do: attendHead, l: &s.layers[i], index: i, n0: n0, n1: n1,
		parts: blocks(n1 - n0)}
	if s.headSize() > 0 {
		a.parts = 1
	}
	s.runAttention(x, s.B*s.cfg.NHead*a.parts, a)
	s.attended(x, i, n0, n1)
}

func (s *Segment) projectRows(x *Exec, i, n0, n1 int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, hd := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead
	m0, m1 := (s.mlen+n0)*s.B, (s.mlen+n1)*s.B // the memory comes first among the keys
	if s.cfg.PreLNorm {
		s.layerNorm(x, l.norm1, l.cn, l.in, ix.gain1, ix.bias1, m0, m1)
	}
	input := kernel.Mat(s.keyInput(l)[m0*D:m1*D], m1-m0, D)
	wqkv := s.weight(ix.qkv)
	x.MulNT(rowsOf(l.q, n0*s.B, n1*s.B, hd), input, wqkv.RowRange(0, hd), false)
	x.MulNT(rowsOf(l.kv, m0, m1, 2*hd), input, wqkv.RowRange(hd, 3*hd), false)
}

// attended applies o_net, the residual and the normalization to rows n0 to n1-1 of layer i's
// attention. The attention vectors l.av must be complete.
func (s *Segment) attended(x *Exec, i, n0, n1 int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, hd := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead
	x.MulNT(rowsOf(l.y1, n0*s.B, n1*s.B, D), rowsOf(l.av, n0*s.B, n1*s.B, hd), s.weight(ix.o),
		false)
	end := &s.pass.residual
	*end = residualPass{width: D, drop: &s.drop, branch: l.y1, residual: l.in[s.mlen*s.B*D:],
		sum:    l.y1,
		normed: l.x, norm: &l.norm1, normGain: s.effective[ix.gain1],
		normOffset: s.effective[ix.bias1],
		site:       siteAttentionOut, layer: i}
	if s.cfg.PreLNorm {
		end.norm, end.normGain, end.normOffset = &l.norm2, s.effective[ix.gain2],
			s.effective[ix.bias2]
	}
	s.eachRow(x, end, n0*s.B, n1*s.B)
}

// The following functions return one head's part of a buffer without copying. Rows of one stream
// are B rows apart.

// queries returns the matrix of rows n0 to n1-1 of stream b and head h in buf, which has shape
// [T*B,H*d].
func (s *Segment) queries(buf []float32, b, h, n0, n1 int) kernel.Matrix {
	d, hd := s.cfg.DHead, s.cfg.NHead*s.cfg.DHead
	return kernel.Matrix{Data: buf[(n0*s.B+b)*hd+h*d:], Rows: n1 - n0, Cols: d, Stride: s.B * hd}
}

// keys returns the first klen keys of stream b and head h in buf, or the values if part is 1. buf
// has shape [(MemLen+T)*B,2*H*d].
func (s *Segment) keys(buf []float32, part, b, h, klen int) kernel.Matrix {
	d, hd := s.cfg.DHead, s.cfg.NHead*s.cfg.DHead
	return kernel.Matrix{Data: buf[b*2*hd+part*hd+h*d:], Rows: klen, Cols: d, Stride: s.B * 2 * hd}
}

// distances returns head h's part of buf, which holds r or the gradient of r. Its rows are the
// distances from queries before n1 to their keys, in descending order. The distance from query i to
// key j is in row j + n1-1-i.
func (s *Segment) distances(buf []float32, h, n1 int) kernel.Matrix {
	d := s.cfg.DHead
	return s.byDistance(buf, s.cfg.NHead*d).RowRange(s.T-n1, s.T+s.mlen).ColRange(h*d, (h+1)*d)
}

func (s *Segment) dropAttention(layer int, k *block, dst, prob kernel.Matrix) {
	key := kernel.Key(s.drop.Key, siteAttention, uint64(layer), uint64(k.b), uint64(k.h))
	stride := (s.cfg.maxKeys(s.T) + 3) / 4
	for i := range prob.Rows {
		dropRow(row(dst, i), row(prob, i), s.drop.Attention, key, uint64((k.i0+i)*stride))
	}
}

// window returns the range of keys, lo to hi-1, that query i may attend to.
func (s *Segment) window(i int) (lo, hi int) {
	hi = i + s.mlen + 1
	if s.cfg.SameLength {
		lo = max(0, hi-s.cfg.MemLen)
	}
	return lo, hi
}

func row(m kernel.Matrix, i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }

// attendHead is task i of the forward pass: it computes the attention of a part of a head's blocks.
func attendHead(s *Segment, w *Exec, a *attention, i int) {
	h, part := i/a.parts, i%a.parts
	k := s.head(w, a, h/s.cfg.NHead, h%s.cfg.NHead, s.mlen+a.n1)
	n := blocks(a.n1-a.n0) / a.parts
	for j := part * n; j < (part+1)*n; j++ {
		i0 := a.n0 + j*queryBlock
		s.attendBlock(w, a, s.block(w, a, k, i0, min(i0+queryBlock, a.n1)))
	}
}

func (s *Segment) attendBlock(w *Exec, a *attention, k block) {
	s.score(w, a.l, &k)
	prob, norms := k.scores.byKey(), s.norms(a.l, &k)
	for i := range prob.Rows {
		lo, hi := s.window(k.i0 + i)
		norms[i].most, norms[i].sum = w.Softmax(row(prob, i)[lo:hi], s.scale())
		// The backward pass also reads the columns of later keys. They may contain numbers of an
		// earlier segment, so they are cleared.
		clearOutside(prob.Data[i*prob.Stride:][:s.mlen+s.T], lo, hi)
	}
	if s.drop.Attention > 0 {
		s.dropAttention(a.index, &k, k.d.byKey(), prob)
		prob = k.d.byKey()
	}
	w.MulNN(s.queries(a.l.av, k.b, k.h, k.i0, k.i1), prob, k.v, false)
}

// score sets k.scores to qu Kᵀ (one column per key) plus qv Rᵀ (one column per distance), without
// the factor 1/sqrt(d). Scores of keys that a query may not attend to are meaningless.
func (s *Segment) score(w *Exec, l *activations, k *block) {
	w.MulNT(k.scores.byKey(), k.qu, k.k, false)
	w.MulNT(k.scores.byDistance(), k.qv, s.distances(l.r, k.h, k.i1), true)
}

func (s *Segment) scale() float32 { return float32(1 / math.Sqrt(float64(s.cfg.DHead))) }

func (s *Segment) norms(l *activations, k *block) []softmaxNorm {
	return l.norms[(k.b*s.cfg.NHead+k.h)*s.T+k.i0:][:k.i1-k.i0]
}

func clearOutside(row []float32, lo, hi int) {
	clear(row[:lo])
	clear(row[hi:])
}

// attendBackward propagates the gradient through layer i's attention. On entry, s.dy is dL/d(h +
// o). With post-norm, the caller has already propagated s.dy through the normalization. If below is
// true, a weight below this layer needs a gradient. attendBackward then adds the attention's part
// of dL/dh to s.dx, which already contains the residual's part.
func (s *Segment) attendBackward(x *Exec, i int, grads Grads, below bool) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, hd, rows, keys := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead, s.n*s.B, (s.mlen+s.n)*s.B
	do := kernel.Mat(s.dy[:rows*D], rows, D)
	s.drop.rows(siteAttentionOut, i, s.dy, D, 0, rows)
	if g := grads[ix.o]; g != nil {
		x.MulTN(kernel.Mat(g, D, hd), do, rowsOf(l.av, 0, rows, hd), false)
	}
	x.MulNN(rowsOf(s.dav, 0, rows, hd), do, s.weight(ix.o), false)

	normWanted := s.cfg.PreLNorm && (grads[ix.gain1] != nil || grads[ix.bias1] != nil)
	task := attention{do: attendHeadBackward, l: l, index: i, n1: s.n,
		distances: grads[ix.r] != nil}
	if s.reuse.StaleKeys || grads[ix.qkv] == nil && !normWanted {
		task.firstKey = s.mlen // no gradient flows into the memory
	}
	first := task.firstKey * s.B
	// distances too large for a segment of n rows
	clear(s.byDistance(s.dr, hd).Data[:(s.T-s.n)*hd])
	s.runAttention(x, s.cfg.NHead, task)
	s.addBiasGrads(x, ix, grads)
	if g := grads[ix.r]; g != nil {
		x.MulTN(kernel.Mat(g, hd, D), s.byDistance(s.dr, hd), s.positions(), false)
	}
	dq, dkv := rowsOf(s.dq, 0, rows, hd), rowsOf(s.dkv, 0, keys, 2*hd)
	input := s.keyInput(l)
	if g := grads[ix.qkv]; g != nil {
		gm := kernel.Mat(g, 3*hd, D)
		x.MulTN(gm.RowRange(0, hd), dq, rowsOf(input, s.mlen*s.B, keys, D), false)
		x.MulTN(gm.RowRange(hd, 3*hd), dkv.RowRange(first, keys), rowsOf(input, first, keys, D),
			false)
	}
	if !below && !normWanted {
		return
	}
	wq, wkv := s.weight(ix.qkv).RowRange(0, hd), s.weight(ix.qkv).RowRange(hd, 3*hd)
	if !s.cfg.PreLNorm {
		dx := rowsOf(s.dx, 0, rows, D)
		x.MulNN(dx, dq, wq, true)
		x.MulNN(dx, dkv.RowRange(s.mlen*s.B, keys), wkv, true)
		return
	}
	// The memory's rows were normalized in this layer, too, so they contribute to the gradients of
	// gain and bias.
	dn := s.dnorm[first*D:]
	x.MulNN(rowsOf(s.dnorm, first, keys, D), dkv.RowRange(first, keys), wkv, false)
	x.MulNN(rowsOf(s.dnorm, s.mlen*s.B, keys, D), dq, wq, true)
	s.layerNormBackward(x, l.norm1.from(first), dn, dn, l.in[first*D:], ix.gain1, ix.bias1, grads,
		keys-first)
	s.add(x, s.dx, s.dx, s.dnorm[s.mlen*s.B*D:], D, 0, rows)
}

// attendHeadBackward is the task of head h in the backward pass. The gradients of r and of the
// biases are sums over streams and blocks. The last block of a stream comes first, because it has
// every key and distance: it initializes the sums, and the other blocks add to them.
func attendHeadBackward(s *Segment, w *Exec, a *attention, h int) {
	d, hd := s.cfg.DHead, s.cfg.NHead*s.cfg.DHead
	du, dv := s.dbias[h*d:(h+1)*d], s.dbias[hd+h*d:hd+(h+1)*d]
	clear(du)
	clear(dv)
	for b := range s.B {
		of := s.head(w, a, b, h, s.mlen+s.n)
		s.headGrads(w, &of)
		for i := blocks(s.n) - 1; i >= 0; i-- {
			k := s.block(w, a, of, i*queryBlock, min((i+1)*queryBlock, s.n))
			first := k.i1 == s.n
			s.scoreBackward(w, a, &k, !first)
			d := k.d.byKey()
			w.MulTN(k.dk.RowRange(a.firstKey, k.klen), d.ColRange(a.firstKey, k.klen), k.qu, !first)
			if a.distances {
				w.MulTN(s.distances(s.dr, h, k.i1), k.d.byDistance(), k.qv, b > 0 || !first)
			}
			dq := s.queries(s.dq, b, h, k.i0, k.i1)
			w.MulNN(dq, d, k.k, false)
			w.MulNN(k.dqv, k.d.byDistance(), s.distances(a.l.r, h, k.i1), false)
			for i := range dq.Rows {
				w.Add(du, du, row(dq, i))
				w.Add(dv, dv, row(k.dqv, i))
				w.Add(row(dq, i), row(dq, i), row(k.dqv, i))
			}
		}
		s.storeGrads(a, &of)
	}
}

// scoreBackward sets the block's part of dL/dv, or adds it if acc is true. It sets k.d to the
// gradient of the scores before scaling:
//
//	dP = dav vᵀ,  dscore = P (dP - dav·av) / sqrt(d)
//
// P are the attention probabilities, and dav·av is the sum of P dP over the keys. With dropout, dP
// includes the dropout mask.
func (s *Segment) scoreBackward(w *Exec, a *attention, k *block, acc bool) {
	prob, d := k.scores.byKey(), k.d.byKey()
	if len(a.l.prob) == 0 {
		s.scoreAgain(w, a.l, k)
	}
	kept := prob
	if s.drop.Attention > 0 {
		kept = d
		s.dropAttention(a.index, k, kept, prob)
	}
	dav, av := s.queries(s.dav, k.b, k.h, k.i0, k.i1), s.queries(a.l.av, k.b, k.h, k.i0, k.i1)
	w.MulTN(k.dv.RowRange(a.firstKey, k.klen), kept.ColRange(a.firstKey, k.klen), dav, acc)
	w.MulNT(d, dav, k.v, false)
	if s.drop.Attention > 0 {
		s.dropAttention(a.index, k, d, d)
	}
	clear(k.d.Data[:k.d.Rows]) // byDistance also reads the elements before the first row
	for i := range d.Rows {
		lo, hi := s.window(k.i0 + i)
		w.SoftmaxBackward(row(d, i)[lo:hi], row(prob, i)[lo:hi], w.Dot(row(dav, i), row(av, i)),
			s.scale())
		clearOutside(d.Data[i*d.Stride:(i+1)*d.Stride], lo, hi)
	}
}

func (s *Segment) scoreAgain(w *Exec, l *activations, k *block) {
	s.score(w, l, k)
	prob := k.scores.byKey()
	for i, norm := range s.norms(l, k) {
		lo, hi := s.window(k.i0 + i)
		w.SoftmaxAgain(row(prob, i)[lo:hi], s.scale(), norm.most, norm.sum)
		clearOutside(row(prob, i), lo, hi)
	}
}

// addBiasGrads adds a layer's part of the gradients of r_w_bias and r_r_bias. Layers may share
// these biases.
func (s *Segment) addBiasGrads(x *Exec, ix layerIndex, grads Grads) {
	hd := s.cfg.NHead * s.cfg.DHead
	for k, index := range [2]int{ix.rwBias, ix.rrBias} {
		if g := grads[index]; g != nil {
			x.Add(g, g, s.dbias[k*hd:(k+1)*hd])
		}
	}
}
