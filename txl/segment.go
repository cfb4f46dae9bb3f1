package txl

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// Segment is the caller-owned working space of one segment: every activation
// that backward needs, and the scratch of both directions. It is allocated
// once and used for one segment after another; nothing else is allocated.
//
// Letters used in this package: B batch, T most rows of the segment, n rows so
// far, m rows of memory, klen = m+n keys, D d_model, H heads, d d_head, F
// d_inner, V vocabulary. Everything is time-major: row i of stream b is row
// i*B+b of a matrix.
//
// A segment grows: Begin fixes weights and memory, each Extend appends rows. A
// row's numbers do not depend on how many rows were appended with it, which is
// what lets a stream be scored in pieces of any size.
type Segment struct {
	cfg  Config
	B, T int

	model *Model
	fast  Fast
	mlen  int  // rows of memory in front of the segment
	n     int  // rows so far
	vec   Fast // effective vectors W+M of all tensors that are not matrices
	vecs  []float32
	toks  []int32 // input tokens [T,B]
	drop  Dropout

	layers []layer
	hidden []float32 // output of the last layer [T*B,D]
	logits []float32 // [T*B,V]
	pos    []float32 // R for distances MemLen+T-1 ... 0 [MemLen+T,D]

	// Scratch of the forward direction, then of backward.
	ff []float32 // [T*B,D]

	dlogits      []float32 // [T*B,V]
	dx, dy, dsub []float32 // [T*B,D]
	dinner       []float32 // [T*B,F]
	dhid         []float32 // [T*B,rows of CoreNet.0]
	dav, dq      []float32 // [T*B,H*d]
	dkv          []float32 // [(MemLen+T)*B,2*H*d]
	dr           []float32 // [MemLen+T,H*d]
	dnorm        []float32 // pre-norm: gradient of the normalised keys' input [(MemLen+T)*B,D]
	dbias        []float32 // gradients of r_w_bias, r_r_bias of one layer [2,H*d]

	vectors kernel.Vectors // those of the Exec that computed the logits

	rows rowPass
	cols colPass
	attn attention
}

// Fast holds the fast weights M of each tensor of the layout, nil where a
// tensor is not augmented; an empty Fast stands for none at all (eq. 1 with
// M = 0).
type Fast = [][]float32

// Grads says where Backward puts the gradient of each tensor of the layout,
// nil where it is not wanted.
type Grads = [][]float32

// layer holds the activations of one layer.
type layer struct {
	in    []float32     // c = [memory; input] [(MemLen+T)*B,D]
	norm1 norm          // post-norm: over y1, rows of the segment; pre-norm: over c
	q     []float32     // [T*B,H*d]
	kv    []float32     // keys, then values [(MemLen+T)*B,2*H*d]
	r     []float32     // r_net(R), distances from far to near [MemLen+T,H*d]
	prob  []float32     // where they are kept: scores, then their softmax [B,H] of [T,MemLen+T], see scores
	norms []softmaxNorm // [B,H,T]
	av    []float32     // attention vectors, heads side by side [T*B,H*d]
	y1    []float32     // h + o [T*B,D]
	x     []float32     // input of the feed-forward, LN(y1) [T*B,D]
	norm2 norm          // post-norm: over y2; pre-norm: over y1
	pre   []float32     // W1 x + b1 [T*B,rows of CoreNet.0]
	act   []float32     // activation, after dropout [T*B,F]
	y2    []float32     // post-norm only: x + ff [T*B,D]
	cn    []float32     // pre-norm only: LN(c) [(MemLen+T)*B,D]
}

// NewSegment allocates a segment for batch streams of at most maxLen rows.
// The configuration must be valid.
func NewSegment(c Config, batch, maxLen int) *Segment {
	if batch < 1 || maxLen < 1 {
		panic(fmt.Sprintf("txl: segment of batch %d and length %d, expected both at least 1", batch, maxLen))
	}
	s := &Segment{cfg: c, B: batch, T: maxLen}
	a := &arena{}
	s.carve(a) // measure
	a.buf = make([]float32, a.used)
	a.used = 0
	s.carve(a)
	s.toks = make([]int32, maxLen*batch)
	s.vec = make(Fast, len(NewLayout(c).Tensors))
	for i := range s.layers {
		s.layers[i].norms = make([]softmaxNorm, batch*c.NHead*maxLen)
	}
	s.fillPositions()
	return s
}

// arena hands out pieces of one buffer. Without a buffer it only counts.
type arena struct {
	buf  []float32
	used int
}

func (a *arena) take(n int) []float32 {
	off := a.used
	a.used += (n + 15) &^ 15 // whole cache lines
	if a.buf == nil {
		return nil
	}
	return a.buf[off : off+n : off+n]
}

func (s *Segment) carve(a *arena) {
	c := s.cfg
	rows, keys := s.T*s.B, c.maxKeys(s.T)
	D, hd, F, F1 := c.DModel, c.NHead*c.DHead, c.DInner, c.dHidden()
	s.layers = make([]layer, c.NLayer)
	for i := range s.layers {
		l := &s.layers[i]
		normed := rows
		if c.PreLNorm {
			normed = keys * s.B
			l.cn = a.take(normed * D)
		} else {
			l.y2 = a.take(rows * D)
		}
		l.in = a.take(keys * s.B * D)
		l.norm1 = norm{mean: a.take(normed), rstd: a.take(normed)}
		l.q = a.take(rows * hd)
		l.kv = a.take(keys * s.B * 2 * hd)
		l.r = a.take(keys * hd)
		l.prob = a.take(s.keptSize())
		l.av = a.take(rows * hd)
		l.y1 = a.take(rows * D)
		l.x = a.take(rows * D)
		l.norm2 = norm{mean: a.take(rows), rstd: a.take(rows)}
		l.pre = a.take(rows * F1)
		l.act = a.take(rows * F)
	}
	s.hidden = a.take(rows * D)
	s.logits = a.take(rows * c.Vocab)
	s.pos = a.take(keys * D)
	s.vecs = a.take(NewLayout(c).vectorSize())
	s.ff = a.take(rows * D)
	s.carveBackward(a)
}

func (s *Segment) carveBackward(a *arena) {
	c := s.cfg
	rows, keys := s.T*s.B, c.maxKeys(s.T)
	D, hd := c.DModel, c.NHead*c.DHead
	s.dlogits = a.take(rows * c.Vocab)
	s.dx, s.dy, s.dsub = a.take(rows*D), a.take(rows*D), a.take(rows*D)
	s.dinner = a.take(rows * c.DInner)
	s.dhid = a.take(rows * c.dHidden())
	s.dav, s.dq = a.take(rows*hd), a.take(rows*hd)
	s.dkv = a.take(keys * s.B * 2 * hd)
	s.dr = a.take(keys * hd)
	s.dbias = a.take(2 * hd)
	if c.PreLNorm {
		s.dnorm = a.take(keys * s.B * D)
	}
}

func (l *Layout) vectorSize() (n int) {
	for _, t := range l.Tensors {
		if !t.IsMatrix() {
			n += t.Size
		}
	}
	return n
}

// fillPositions writes the sinusoids for distances MemLen+T-1 ... 0, sines
// first, then cosines. A segment with m rows of memory uses the last m+T rows.
func (s *Segment) fillPositions() {
	D, keys := s.cfg.DModel, s.cfg.maxKeys(s.T)
	for i := range keys {
		distance := keys - 1 - i
		if s.cfg.ClampLen > 0 {
			distance = min(distance, s.cfg.ClampLen)
		}
		row := s.pos[i*D : (i+1)*D]
		for k := range D / 2 {
			angle := float64(distance) * math.Pow(10000, -2*float64(k)/float64(D))
			row[k], row[D/2+k] = float32(math.Sin(angle)), float32(math.Cos(angle))
		}
	}
}

// Begin starts a segment at the given weights and memory, both only read and
// kept by reference until the next Begin. fast may be empty (static model).
func (s *Segment) Begin(x *kernel.Exec, m *Model, fast Fast, mem *Memory) {
	s.model, s.fast, s.mlen, s.n = m, fast, mem.Len, 0
	s.addVectors()
	D := s.cfg.DModel
	for i := range s.layers {
		copy(s.layers[i].in, mem.Layers[i][:s.mlen*s.B*D])
		s.projectMemory(x, i)
		s.projectPositions(x, i)
	}
}

// Continue goes on behind the rows so far, at the weights of Begin: it is Remember and
// then Begin with that memory, bit for bit. Fast weights may have changed their values.
// A layer whose keys, values and positions have no fast weights keeps those it has.
func (s *Segment) Continue(x *kernel.Exec) {
	s.addVectors()
	total, before := s.mlen+s.n, s.mlen
	s.mlen, s.n = min(s.cfg.MemLen, total), 0
	drop := total - s.mlen
	keep := func(buf []float32, width int) { copy(buf, buf[drop*s.B*width:total*s.B*width]) }
	for i := range s.layers {
		l, ix := &s.layers[i], s.model.Layout.layers[i]
		keep(l.in, s.cfg.DModel)
		if s.fastOf(ix.qkv) != nil || s.cfg.PreLNorm && (s.fastOf(ix.gain1) != nil || s.fastOf(ix.bias1) != nil) {
			s.projectMemory(x, i)
		} else {
			keep(l.kv, 2*s.cfg.NHead*s.cfg.DHead)
			if s.cfg.PreLNorm {
				keep(l.cn, s.cfg.DModel)
				keep(l.norm1.mean, 1)
				keep(l.norm1.rstd, 1)
			}
		}
		if s.mlen != before || s.fastOf(ix.r) != nil {
			s.projectPositions(x, i)
		}
	}
}

// projectMemory sets layer i's keys and values for the rows of memory.
func (s *Segment) projectMemory(x *kernel.Exec, i int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	if s.mlen == 0 {
		return
	}
	D, hd, keys := s.cfg.DModel, s.cfg.NHead*s.cfg.DHead, s.mlen*s.B
	if s.cfg.PreLNorm {
		s.layerNorm(x, &l.norm1, l.cn, l.in, ix.gain1, ix.bias1, 0, keys)
	}
	x.MulNT(kernel.Mat(l.kv[:keys*2*hd], keys, 2*hd), kernel.Mat(s.keyInput(l), keys, D), s.weight(ix.qkv).RowRange(hd, 3*hd), false)
}

// projectPositions sets layer i's r = r_net(R) for every distance the segment can meet.
func (s *Segment) projectPositions(x *kernel.Exec, i int) {
	x.MulNT(s.byDistance(s.layers[i].r), s.positions(), s.weight(s.model.Layout.layers[i].r), false)
}

// addVectors forms the effective vectors W+M once a segment; matrices are
// added while a product packs them.
func (s *Segment) addVectors() {
	off := 0
	for i, t := range s.model.Layout.Tensors {
		w := s.model.Tensor(i)
		if f := s.fastOf(i); f != nil && !t.IsMatrix() {
			sum := s.vecs[off : off+t.Size]
			for j := range sum {
				sum[j] = w[j] + f[j]
			}
			w = sum
		}
		if !t.IsMatrix() {
			off += t.Size
		}
		s.vec[i] = w
	}
}

func (s *Segment) fastOf(i int) []float32 {
	if len(s.fast) == 0 {
		return nil
	}
	return s.fast[i]
}

// weight is the effective matrix W+M of tensor i, as a right operand.
func (s *Segment) weight(i int) kernel.Matrix {
	t := s.model.Layout.Tensors[i]
	w := kernel.Mat(s.model.Tensor(i), t.Shape[0], t.Shape[1])
	w.Add = s.fastOf(i)
	return w
}

// positions is R for this segment's distances, m+T-1 ... 0.
func (s *Segment) positions() kernel.Matrix {
	D := s.cfg.DModel
	return kernel.Mat(s.pos[(s.cfg.MemLen-s.mlen)*D:], s.mlen+s.T, D)
}

// byDistance views a buffer of H*d columns as one row a distance, from m+T-1
// down to 0: query i meets key j at row j + T-1-i.
func (s *Segment) byDistance(buf []float32) kernel.Matrix {
	hd, keys := s.cfg.NHead*s.cfg.DHead, s.mlen+s.T
	return kernel.Mat(buf[:keys*hd], keys, hd)
}

// keyInput is what keys and values are made from: c, or LN(c) with pre-norm.
func (s *Segment) keyInput(l *layer) []float32 {
	if s.cfg.PreLNorm {
		return l.cn
	}
	return l.in
}

// Len is the number of rows so far.
func (s *Segment) Len() int { return s.n }

// Extend appends len(tokens)/B rows: tokens is [k,B], ids below the
// vocabulary's size.
func (s *Segment) Extend(x *kernel.Exec, tokens []int32) {
	n0, n1 := s.n, s.n+len(tokens)/s.B
	if len(tokens)%s.B != 0 || n1 > s.T {
		panic(fmt.Sprintf("txl: %d tokens extend a segment of %d rows, batch %d, expected whole rows and at most %d", len(tokens), n0, s.B, s.T))
	}
	if n0 == n1 {
		return
	}
	copy(s.toks[n0*s.B:], tokens)
	s.n, s.vectors = n1, x.Vectors
	s.embed(n0, n1)
	for i := range s.layers {
		s.attend(x, i, n0, n1)
		s.feedForward(x, i, n0, n1)
	}
	s.project(x, n0, n1)
}

// embed writes sqrt(D) * (W+M)[token] as the first layer's input.
func (s *Segment) embed(n0, n1 int) {
	D := s.cfg.DModel
	scale := float32(math.Sqrt(float64(D)))
	w, f := s.model.Tensor(s.model.Layout.emb), s.fastOf(s.model.Layout.emb)
	first := s.layers[0].in[s.mlen*s.B*D:]
	for row := n0 * s.B; row < n1*s.B; row++ {
		id := int(s.toks[row])
		dst := first[row*D : (row+1)*D]
		for j, v := range w[id*D : (id+1)*D] {
			if f != nil {
				v += f[id*D+j]
			}
			dst[j] = v * scale
		}
	}
	s.dropRows(siteEmbedding, 0, first, D, n0*s.B, n1*s.B)
}

// output is where layer i writes its result: the next layer's input.
func (s *Segment) output(i int) []float32 {
	if i+1 == len(s.layers) {
		return s.hidden
	}
	return s.layers[i+1].in[s.mlen*s.B*s.cfg.DModel:]
}

// Remember sets mem to the memory after this segment: for each layer the last
// MemLen rows of [memory; input]. mem may be the memory the segment began with.
func (s *Segment) Remember(mem *Memory) {
	width := s.B * s.cfg.DModel
	total := s.mlen + s.n
	mem.Len = min(s.cfg.MemLen, total)
	for i := range s.layers {
		copy(mem.Layers[i], s.layers[i].in[(total-mem.Len)*width:total*width])
	}
}

// Hidden is the output of the last layer for the rows so far, [n*B,D].
func (s *Segment) Hidden() []float32 { return s.hidden[:s.n*s.B*s.cfg.DModel] }
