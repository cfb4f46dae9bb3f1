package txl

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// Segment is the caller's working space for one segment: the activations that the backward pass
// needs, and scratch memory. It is allocated once and used for one segment after another, without
// further allocations.
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
// Begin sets weights and memory, and each Extend appends rows. The results for a row do not depend
// on the number of rows in its Extend. So a stream can be scored in pieces of any size.
type Segment struct {
	cfg  Config
	B, T int

	of    *Segment // partner of a segment from NewBeside, or nil
	first int      // lowest half of a layer that this segment computes; see Layout.firstHalf

	model     *Model
	fast      Fast
	mlen      int
	n         int  // number of rows so far
	effective Fast // W+M of each tensor, or nil if not precomputed; see addFast
	sums      []float32
	toks      []int32 // input tokens [T,B]
	drop      Dropout
	reuse     Reuse
	exec      *Exec
	at        int // first row of the window in each keyed

	layers []activations
	hidden []float32 // output of the last layer [T*B,D]
	// hidden states projected to the head's width, if the head has a projection [T*B,E]
	headLow []float32
	logits  []float32 // logits of the head [T*B,V]; with tails, [T*B,width of the head]
	pos     []float32 // position encodings R for distances MemLen+T-1 down to 0 [MemLen+T,D]

	// The fields from ff to members are scratch memory of the forward pass; the backward pass also
	// uses them.
	ff      []float32
	low     []float32 // rows in a cluster's width, if a cluster has a projection [T*B,E]
	tail    []float32 // logits of a block of rows in one tail cluster of the vocabulary
	members []int32   // rows whose tokens are in one cluster [T*B]

	dlow         []float32
	dlogits      []float32
	dx, dy, dsub []float32
	dinner       []float32
	dhid         []float32
	dav, dq      []float32
	dkv          []float32
	dr           []float32
	dnorm        []float32 // pre-norm: gradient of LN(c), then of c [(MemLen+T)*B,D]
	dbias        []float32 // gradients of r_w_bias and r_r_bias of one layer [2,H*d]

	pass passes
	rows rowPass
	cols colPass
	attn attention
}

// Fast holds the fast weights M of each tensor of the layout, or nil for a tensor without fast
// weights. An empty Fast means M = 0 for all tensors.
type Fast = [][]float32

// Grads receives the gradient of each tensor of the layout in Backward. Tensors with a nil entry
// are skipped.
type Grads = [][]float32

type activations struct {
	all keyed
	in  []float32 // c = [memory; input] [(MemLen+T)*B,D]
	kv  []float32 // keys, then values [(MemLen+T)*B,2*H*d]
	cn  []float32 // pre-norm only: LN(c) [(MemLen+T)*B,D]
	r   []float32 // r_net(R) for distances MemLen+T-1 down to 0 [MemLen+T,H*d]
	own

	distances int  // number of computed rows of r, counted from its last row
	moving    bool // whether r_net has fast weights, which can change between segments
}

// own holds the activations of one layer that only the present segment needs.
type own struct {
	norm1 norm // post-norm: norm of y1; pre-norm: norm of c
	q     []float32
	// empty, or scores and then probabilities [B,H] of [T,MemLen+T]; see keptSize
	prob  []float32
	norms []softmaxNorm // [B,H,T]
	av    []float32     // attention vectors before o_net, heads side by side [T*B,H*d]
	y1    []float32     // h + o, the input plus the output of attention [T*B,D]
	x     []float32     // input of feed-forward, LN(y1) [T*B,D]
	norm2 norm          // post-norm: norm of y2; pre-norm: norm of y1
	pre   []float32     // W1 x + b1 [T*B,outputs of W1]
	act   []float32
	y2    []float32 // post-norm only: x plus the output of feed-forward [T*B,D]
}

// passes are the tasks of a segment, with their arguments. They are stored here to avoid
// allocations.
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

// softmaxNorm holds the maximum of a row and the sum of its exponentials. From these numbers, the
// row's softmax can be recomputed.
type softmaxNorm struct{ most, sum float32 }

// attention is the parallel task of one layer, forward or backward. It is stored in the segment to
// avoid allocations.
type attention struct {
	do     func(s *Segment, w *Exec, a *attention, i int)
	l      *activations
	index  int
	n0, n1 int // queries n0 to n1-1
	parts  int // forward: number of tasks for each head, which share its blocks evenly
	seg    *Segment

	firstKey  int  // backward: first key and value that need a gradient
	distances bool // backward: whether r needs a gradient
}

// NewSegment allocates a segment of at most maxLen rows for the given number of streams. The
// configuration must be valid.
func NewSegment(c Config, batch, maxLen int) *Segment {
	if batch < 1 || maxLen < 1 {
		panic(fmt.Sprintf("txl: segment of batch %d and length %d, expected both at least 1", batch,
			maxLen))
	}
	return (&Segment{cfg: c, B: batch, T: maxLen, first: wholeNetwork}).allocate()
}

func (s *Segment) allocate() *Segment {
	a := &arena{}
	s.carve(a) // without a buffer, carve only counts the elements
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

// SegmentBytes returns the number of bytes that a segment occupies, except for a negligible part.
func SegmentBytes(c Config, batch, maxLen int) int64 {
	return (&Segment{cfg: c, B: batch, T: maxLen}).bytes()
}

func (s *Segment) bytes() int64 {
	a := &arena{}
	s.carve(a)
	return 4 * int64(a.used)
}

// arena allocates slices of one buffer. While buf is nil, it only counts the elements.
type arena struct {
	buf  []float32
	used int
}

func (a *arena) take(n int) []float32 {
	off := a.used
	a.used += (n + 15) &^ 15 // rounds up to whole cache lines
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
			// layers share these buffers, because a segment from NewBeside has no backward pass
			l.own = s.layers[0].own
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

// slackRows is the number of additional rows in the keyed buffers of a single stream. With these
// rows, most calls of Continue need not copy the memory's rows.
const slackRows = 256

// keyedRows returns the number of rows per stream in the buffers of type keyed.
func (s *Segment) keyedRows() int {
	if s.B > 1 {
		// Segments of several streams have no slack rows, so Continue copies the memory's rows more
		// often.
		return s.cfg.maxKeys(s.T)
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

// show moves the beginning of the window to row at of each keyed.
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

// projectedWidth returns the maximum width of the clusters with projections, or 0 if no cluster has
// one.
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

// fillPositions writes the sinusoids for distances MemLen+T-1 down to 0; in each row, sines precede
// cosines. A segment with m rows of memory uses the last m+T rows.
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

// SetReuse sets which additional results the segment keeps, from the next Begin on. By default, the
// segment keeps nothing extra.
func (s *Segment) SetReuse(r Reuse) { s.reuse = r }

// SetDropout sets the dropout from the next Begin on. The zero value disables dropout.
func (s *Segment) SetDropout(d Dropout) { s.drop = d }

func (s *Segment) fastOf(i int) []float32 {
	if len(s.fast) == 0 {
		return nil
	}
	return s.fast[i]
}

// output returns the buffer for the result of layer i, which is the input of the next layer.
func (s *Segment) output(i int) []float32 {
	if i+1 == len(s.layers) {
		return s.hidden
	}
	return s.layers[i+1].in[s.mlen*s.B*s.cfg.DModel:]
}

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
// rows of memory. With several streams, each thread uses 16 d klen bytes more. The backward pass
// needs the attention probabilities. The forward pass keeps them if those of a whole segment fit in
// keptBytes. Otherwise the backward pass recomputes the same bits, with 4 H d n klen more
// operations.
const (
	queryBlock = 64
	keptBytes  = 64 << 20
)

// tailElements limits the number of a tail's float32 logits in memory. Rows that need a tail are
// processed in blocks. So a tail's logits occupy at most 16 MiB, even with 267,735 words.
const tailElements = 4 << 20

func (k *cluster) tailSize(rows int) int {
	return k.size() * max(1, min(rows, tailElements/k.size()))
}

// gap returns the number of unused elements between the rows of scores.
func (s *Segment) gap() int { return min(queryBlock, s.T) }

func (s *Segment) scoresSize(rows int) int { return s.gap() + rows*(s.cfg.maxKeys(s.T)+s.gap()) }

// keptSize returns the number of elements for all attention probabilities of a layer, or 0 if they
// are not kept.
func (s *Segment) keptSize() int {
	size := s.B * s.cfg.NHead * s.scoresSize(s.T)
	if s.of != nil || 4*size*s.cfg.NLayer > keptBytes {
		return 0
	}
	return size
}
