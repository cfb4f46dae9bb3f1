package txl

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Segment is the caller's working space for one segment: the activations that backward needs, and
// the scratch memory of both directions. It is allocated once and used for one segment after
// another; nothing else is allocated.
//
// Letters in this package:
//
//	B    batch               D  d_model    F  d_inner
//	T    maximum of n        H  heads      V  vocabulary
//	n    rows so far         d  d_head     E  width of embeddings
//	m    rows of memory
//	klen = m+n keys
//
// All matrices are time-major: row i of stream b is row i*B+b.
//
// A segment grows: Begin sets weights and memory, and each Extend appends rows. A row's numbers
// do not depend on how many rows were appended with it. So a stream can be scored in pieces of
// any size.
type Segment struct {
	cfg  Config
	B, T int

	of    *Segment // partner of a segment from NewBeside; else nil
	first int      // lowest half of a layer computed here, see Layout.firstHalf

	model     *Model
	fast      Fast
	mlen      int       // rows of memory before the segment
	n         int       // number of rows so far
	effective Fast      // W+M of each tensor, nil where not summed; see addFast
	sums      []float32 // memory for the sums W+M, allocated on first use
	toks      []int32   // input tokens [T,B]
	drop      Dropout
	reuse     Reuse
	exec      *Exec // Exec of the last Extend
	at        int   // first row of the window into the rows of keyed

	layers  []activations
	hidden  []float32 // output of the last layer [T*B,D]
	headLow []float32 // hidden in the width of the head, if it has a projection [T*B,E]
	logits  []float32 // of the head [T*B,V]; V is the head's width if there are tails
	pos     []float32 // R for distances MemLen+T-1 ... 0 [MemLen+T,D]

	// Scratch of the forward direction, also used by backward.
	ff      []float32 // [T*B,D]
	low     []float32 // rows in a cluster's width, if any has a projection [T*B,E]
	tail    []float32 // logits of some rows in one tail
	members []int32   // rows whose tokens are in one cluster [T*B]

	dlow         []float32 // [T*B,E]
	dlogits      []float32 // [T*B,V]
	dx, dy, dsub []float32 // [T*B,D]
	dinner       []float32 // [T*B,F]
	dhid         []float32 // [T*B,rows of CoreNet.0]
	dav, dq      []float32 // [T*B,H*d]
	dkv          []float32 // [(MemLen+T)*B,2*H*d]
	dr           []float32 // [MemLen+T,H*d]
	dnorm        []float32 // pre-norm: gradient of the normalized keys' input [(MemLen+T)*B,D]
	dbias        []float32 // gradients of r_w_bias, r_r_bias of one layer [2,H*d]

	pass passes
	rows rowPass
	cols colPass
	attn attention
}

// Fast holds the fast weights M of each tensor of the layout, nil for a tensor without any. An
// empty Fast means M = 0 in eq. 1.
type Fast = [][]float32

// Grads receives the gradient of each tensor of the layout in Backward; nil entries are skipped.
type Grads = [][]float32

// activations are the activations of one layer.
type activations struct {
	all keyed
	in  []float32 // c = [memory; input] [(MemLen+T)*B,D]
	kv  []float32 // keys, then values [(MemLen+T)*B,2*H*d]
	cn  []float32 // pre-norm only: LN(c) [(MemLen+T)*B,D]
	r   []float32 // r_net(R), distances MemLen+T-1 ... 0 [MemLen+T,H*d]
	own

	distances int  // number of rows of r that are computed, from the end
	moving    bool // r has fast weights, which change between segments
}

// own holds the activations of one layer that have rows for the segment alone. The next segment
// does not need them. The layer above needs only the result.
type own struct {
	norm1 norm          // post-norm: over y1, rows of the segment; pre-norm: over c
	q     []float32     // [T*B,H*d]
	prob  []float32     // if kept: scores, then their softmax [B,H] of [T,MemLen+T], see scores
	norms []softmaxNorm // [B,H,T]
	av    []float32     // attention vectors, heads side by side [T*B,H*d]
	y1    []float32     // h + o [T*B,D]
	x     []float32     // input of the feed-forward, LN(y1) [T*B,D]
	norm2 norm          // post-norm: over y2; pre-norm: over y1
	pre   []float32     // W1 x + b1 [T*B,rows of CoreNet.0]
	act   []float32     // activation, after dropout [T*B,F]
	y2    []float32     // post-norm only: x + ff [T*B,D]
}

// passes are the tasks of a segment, each with its arguments.
type passes struct {
	bias             biasPass
	add              addPass
	residual         residualPass
	norm             normPass
	normBackward     normBackwardPass
	normGrads        normGradsPass
	softmax          softmaxPass
	activate         activatePass
	activateBackward activateBackwardPass
	sum              sumPass
}

// softmaxNorm holds the two numbers to recompute a row's softmax.
type softmaxNorm struct{ most, sum float32 }

// attention is the parallel task of one layer, forward or backward. Like the passes it is stored
// in the segment.
type attention struct {
	do     func(s *Segment, w *Exec, a *attention, i int)
	l      *activations
	index  int // number of the layer
	n0, n1 int // queries
	seg    *Segment

	// firstKey and distances say which gradients the backward direction needs.
	firstKey  int  // first key and value with a gradient
	distances bool // whether r needs its gradient
}

// NewSegment allocates a segment for a batch of streams of at most maxLen rows. The configuration
// must be valid.
func NewSegment(c Config, batch, maxLen int) *Segment {
	if batch < 1 || maxLen < 1 {
		panic(fmt.Sprintf("txl: segment of batch %d and length %d, expected both at least 1", batch,
			maxLen))
	}
	return (&Segment{cfg: c, B: batch, T: maxLen, first: wholeNetwork}).allocate()
}

// allocate makes the arrays of a segment with a known size.
func (s *Segment) allocate() *Segment {
	a := &arena{}
	s.carve(a) // without a buffer, carve only measures the size
	a.buf = kernel.NewLarge(a.used)
	a.used = 0
	s.carve(a)
	rows := s.T * s.B
	s.toks, s.members = make([]int32, rows), make([]int32, 0, rows)
	s.effective = make(Fast, len(NewLayout(s.cfg).Tensors))
	s.show(0)
	s.fillPositions()
	return s
}

// SegmentBytes returns the bytes of memory of a segment, except a negligible part.
func SegmentBytes(c Config, batch, maxLen int) int64 {
	return (&Segment{cfg: c, B: batch, T: maxLen}).bytes()
}

func (s *Segment) bytes() int64 {
	a := &arena{}
	s.carve(a)
	return 4 * int64(a.used)
}

// arena allocates pieces of one buffer. Without a buffer it only counts the elements needed.
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
	c, lay := s.cfg, NewLayout(s.cfg)
	rows, keys := s.T*s.B, c.maxKeys(s.T)
	s.layers = make([]activations, c.NLayer)
	for i := range s.layers {
		l := &s.layers[i]
		l.all = s.carveKeyed(a)
		l.r = a.take(keys * c.NHead * c.DHead)
		if s.of != nil && i > 0 {
			l.own = s.layers[0].own // without backward, layers share these buffers
		} else {
			l.own = s.carveOwn(a)
		}
	}
	s.hidden = a.take(rows * c.DModel)
	s.logits = a.take(rows * lay.headWidth())
	s.pos = a.take(keys * c.DModel)
	s.ff = a.take(rows * c.DModel)
	s.carveClusters(a, lay)
	if s.of == nil {
		s.carveBackward(a, lay)
	}
}

func (s *Segment) carveOwn(a *arena) (l own) {
	c := s.cfg
	rows, D, hd := s.T*s.B, c.DModel, c.NHead*c.DHead
	if !c.PreLNorm {
		l.y2 = a.take(rows * D)
		l.norm1 = norm{mean: a.take(rows), rstd: a.take(rows)}
	}
	l.q = a.take(rows * hd)
	l.prob = a.take(s.keptSize())
	if a.buf != nil {
		l.norms = make([]softmaxNorm, s.B*c.NHead*s.T)
	}
	l.av = a.take(rows * hd)
	l.y1 = a.take(rows * D)
	l.x = a.take(rows * D)
	l.norm2 = norm{mean: a.take(rows), rstd: a.take(rows)}
	l.pre = a.take(rows * c.dHidden())
	l.act = a.take(rows * c.DInner)
	return l
}

// slackRows is the number of additional rows in the buffers of a single stream. With them, most
// segments need not move the rows of memory.
const slackRows = 256

// keyedRows returns the number of rows in the buffers of keyed.
func (s *Segment) keyedRows() int {
	if s.B > 1 {
		return s.cfg.maxKeys(s.T) // training needs no window: it calls Begin again
	}
	return s.cfg.maxKeys(s.T) + min(s.cfg.MemLen, slackRows)
}

func (s *Segment) carveKeyed(a *arena) (k keyed) {
	rows := s.keyedRows() * s.B
	k.in = a.take(rows * s.cfg.DModel)
	k.kv = a.take(rows * 2 * s.cfg.NHead * s.cfg.DHead)
	if s.cfg.PreLNorm {
		k.cn = a.take(rows * s.cfg.DModel)
		k.mean, k.rstd = a.take(rows), a.take(rows)
	}
	return k
}

// show makes the window into the rows of keyed begin at a row.
func (s *Segment) show(at int) {
	s.at = at
	for i := range s.layers {
		l := &s.layers[i]
		l.in = l.all.in[at*s.B*s.cfg.DModel:]
		l.kv = l.all.kv[at*s.B*2*s.cfg.NHead*s.cfg.DHead:]
		if s.cfg.PreLNorm {
			l.cn = l.all.cn[at*s.B*s.cfg.DModel:]
			l.norm1 = norm{mean: l.all.mean[at*s.B:], rstd: l.all.rstd[at*s.B:]}
		}
	}
}

// carveClusters allocates the buffers of projections and tails.
func (s *Segment) carveClusters(a *arena, lay *Layout) {
	rows, tail := s.T*s.B, 0
	for i := range lay.tails() {
		tail = max(tail, lay.clusters[i+1].tailSize(rows))
	}
	if head := &lay.clusters[0]; head.proj != none {
		s.headLow = a.take(rows * head.width)
	}
	s.low = a.take(rows * lay.projectedWidth())
	s.tail = a.take(tail)
}

// projectedWidth returns the maximum width of a cluster with a projection, or 0 if there is none.
func (l *Layout) projectedWidth() (width int) {
	for i := range l.clusters {
		if k := &l.clusters[i]; k.proj != none {
			width = max(width, k.width)
		}
	}
	return width
}

func (s *Segment) carveBackward(a *arena, lay *Layout) {
	c := s.cfg
	rows, keys := s.T*s.B, c.maxKeys(s.T)
	D, hd := c.DModel, c.NHead*c.DHead
	s.dlow = a.take(rows * lay.projectedWidth())
	s.dlogits = a.take(rows * lay.headWidth())
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

// fillPositions writes the sinusoids for distances MemLen+T-1 ... 0, sines before cosines. A
// segment with m rows of memory uses the last m+T rows.
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

// SetReuse has effect from the next Begin. Without it, the segment keeps nothing extra.
func (s *Segment) SetReuse(r Reuse) { s.reuse = r }

// SetDropout has effect from the next Begin; the zero value disables dropout.
func (s *Segment) SetDropout(d Dropout) { s.drop = d }

func (s *Segment) fastOf(i int) []float32 {
	if len(s.fast) == 0 {
		return nil
	}
	return s.fast[i]
}

// output returns the buffer for layer i's result: the next layer's input.
func (s *Segment) output(i int) []float32 {
	if i+1 == len(s.layers) {
		return s.hidden
	}
	return s.layers[i+1].in[s.mlen*s.B*s.cfg.DModel:]
}

// keyInput returns the input of keys and values: c, or LN(c) with pre-norm.
func (s *Segment) keyInput(l *activations) []float32 {
	if s.cfg.PreLNorm {
		return l.cn
	}
	return l.in
}

func rowsOf(buf []float32, lo, hi, width int) kernel.Matrix {
	return kernel.Mat(buf[lo*width:hi*width], hi-lo, width)
}

// queryBlock is the number of queries of a head that are processed together. With klen = m+n keys,
// attention in each layer needs
//
//	forward  6 H d n klen   additions and multiplications (scores, positions, values)
//	backward 12 H d n klen
//
// minus the masked part. Each thread uses 8 queryBlock (klen + queryBlock) bytes: 2 MB for 3,800
// rows of memory. Backward needs the probabilities of forward. They are kept if a whole segment's
// probabilities fit in keptBytes. Otherwise backward recomputes them, to the same bits, with 4 H d
// n klen more operations.
const (
	queryBlock = 64
	keptBytes  = 64 << 20
)

// tailElements limits the logits of a tail in memory, in float32. Rows that need a tail are
// processed in blocks. So even the tails of a vocabulary of 267,735 words need only 16 MiB.
const tailElements = 4 << 20

// tailSize returns the elements of a block of the tail, for segments of the given number of rows.
func (k *cluster) tailSize(rows int) int {
	return k.size() * max(1, min(rows, tailElements/k.size()))
}

// gap returns the length of the gaps between the rows of scores.
func (s *Segment) gap() int { return min(queryBlock, s.T) }

// scoresSize returns the elements of the scores of some queries.
func (s *Segment) scoresSize(rows int) int { return s.gap() + rows*(s.cfg.maxKeys(s.T)+s.gap()) }

// keptSize returns the elements of all probabilities of a layer, or 0 if they are not kept.
func (s *Segment) keptSize() int {
	size := s.B * s.cfg.NHead * s.scoresSize(s.T)
	if s.of != nil || 4*size*s.cfg.NLayer > keptBytes {
		return 0
	}
	return size
}
