package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Tree holds the keys and values of rows that continue a segment in several ways at once. A row's
// past is the segment's memory, the segment's rows and the row's ancestors in the tree. Rows have
// numbers that the caller chooses, small ones, and may choose again. The zero Tree is empty.
type Tree struct {
	parents []int32     // of each row; none: the row is behind the segment
	kv      [][]float32 // of each layer: keys, then values [rows,2*H*d]
}

// NoRow is the parent of a tree's first row, which stands directly behind the segment.
const NoRow = -1

// Bytes is the memory that the tree occupies.
func (t *Tree) Bytes() (bytes int64) {
	bytes = 4 * int64(cap(t.parents))
	for _, kv := range t.kv {
		bytes += 4 * int64(cap(kv))
	}
	return bytes
}

// keyed are the keys and values of a row of layer i.
func (t *Tree) keyed(i int, row int32, width int) []float32 {
	return rowOf(t.kv[i], int(row),
		width)
}

// Grower is the working space in which trees grow. Begin says which segment they continue.
type Grower struct {
	work *Segment // the rows of one call, without memory
	of   *Segment
	n    int // rows of the segment that the trees continue

	// Of the Grow under way: for each row its ancestors and itself, from the top; and how many
	// distances the rows meet.
	tree   *Tree
	chains [][]int32
	reach  int
	layer  int
}

// NewGrower allocates working space for up to so many rows a call, behind segments of one stream.
func NewGrower(of *Segment, rows int) *Grower {
	return &Grower{work: NewSegment(withoutMemory(of.cfg), 1, rows)}
}

// NewGrowerBeside allocates working space for trees behind a segment that is beside another one,
// see NewBeside. Its calls follow those of the Grower behind that one, and have the same rows.
func NewGrowerBeside(g *Grower) *Grower { return &Grower{work: NewBeside(g.work)} }

// GrowerBytes is the memory of a Grower and of one beside it, but for a part that does not count.
func GrowerBytes(c Config, rows int) int64 {
	c = withoutMemory(c)
	return SegmentBytes(c, 1, rows) + BesideBytes(c, 1, rows)
}

func withoutMemory(c Config) Config {
	c.MemLen, c.SameLength = 0, false
	return c
}

// Begin makes the trees that grow next continue the first n rows of a segment, at its weights as
// they are now. The segment must keep these rows, and its weights, while the trees grow.
func (g *Grower) Begin(of *Segment, n int) {
	g.of, g.n = of, n
	s := g.work
	s.model, s.fast, s.first = of.model, of.fast, of.first
	copy(s.effective, of.effective)
}

// Grow computes some rows of a tree: row rows[i] reads tokens[i] behind row parents[i], which is
// NoRow, older than the call, or one before it in the call. The numbers are those of a segment
// that reads the tokens of the row's ancestors one after the other, with sums in another order.
// Where the path is longer than the segment has room for, they are those of the segments that
// Continue begins, without new weights.
func (g *Grower) Grow(x *Exec, t *Tree, rows, parents, tokens []int32) {
	s := g.work
	copy(s.toks, tokens)
	s.n, s.exec = len(tokens), x
	g.trace(t, rows, parents)
	if s.first < 0 {
		s.embed(x, 0, s.n)
	} else {
		s.takeRows(0, s.n)
	}
	for i := max(0, s.first/2); i < len(s.layers); i++ {
		if s.attends(i) {
			g.attend(x, i)
		}
		s.feedForward(x, i, 0, s.n)
	}
	s.project(x, 0, s.n)
}

// LogProbs writes the normalised log-probabilities (nats) of the token after the i-th row of the
// last Grow to dst [V].
func (g *Grower) LogProbs(i int, dst []float32) { g.work.LogProbs(i, 0, dst) }

// trace makes room for the rows in the tree, and finds their ancestors.
func (g *Grower) trace(t *Tree, rows, parents []int32) {
	width := 2 * g.work.cfg.NHead * g.work.cfg.DHead
	if t.kv == nil {
		t.kv = make([][]float32, g.work.cfg.NLayer)
	}
	for k, row := range rows {
		for int(row) >= len(t.parents) {
			t.parents = append(t.parents, NoRow)
		}
		t.parents[row] = parents[k]
	}
	for i := range t.kv {
		if more := len(t.parents)*width - len(t.kv[i]); more > 0 && g.work.attends(i) {
			t.kv[i] = append(t.kv[i], make([]float32, more)...)
		}
	}
	g.tree, g.reach = t, 0
	for len(g.chains) < len(rows) {
		g.chains = append(g.chains, nil)
	}
	for k, row := range rows {
		chain := g.chains[k][:0]
		for at := row; at != NoRow; at = t.parents[at] {
			chain = append(chain, at)
		}
		for i, j := 0, len(chain)-1; i < j; i, j = i+1, j-1 {
			chain[i], chain[j] = chain[j], chain[i]
		}
		g.chains[k] = chain
		lo, hi := g.window(len(chain))
		g.reach = max(g.reach, hi-lo)
	}
}

// window is the range of keys, first those of the segment and then those of the chain, that the
// last row of a chain may look at: the memory of the segment that the row would stand in, and that
// segment's rows up to the row itself.
func (g *Grower) window(chain int) (lo, hi int) {
	at := g.n + chain - 1
	begins := at - at%g.of.T
	lo = max(0, g.of.mlen+begins-g.of.cfg.MemLen)
	hi = g.of.mlen + at + 1
	if g.of.cfg.SameLength {
		lo = max(lo, hi-g.of.cfg.MemLen)
	}
	return lo, hi
}

// attend is Segment.attend for the rows of the call.
func (g *Grower) attend(x *Exec, i int) {
	s, l, ix := g.work, &g.work.layers[i], g.work.model.Layout.layers[i]
	width := 2 * s.cfg.NHead * s.cfg.DHead
	s.projectRows(x, i, 0, s.n)
	for k, chain := range g.chains[:s.n] {
		copy(g.tree.keyed(i, chain[len(chain)-1], width), rowOf(l.kv, k, width))
	}
	g.of.reachDistances(x, i, ix.r, g.reach)
	keys := g.of.mlen + g.n
	most := 0
	for _, chain := range g.chains[:s.n] {
		most = max(most, len(chain))
	}
	x.Reserve(s.n*(2*s.cfg.DHead+keys+g.reach) + keys + most)
	g.layer = i
	x.Parallel(s.cfg.NHead, g)
	s.attended(x, i, 0, s.n)
}

// Do implements kernel.Task: it attends with head h.
func (g *Grower) Do(w *Exec, h int) {
	s, l, of := g.work, &g.work.layers[g.layer], &g.of.layers[g.layer]
	n, d, hd, keys := s.n, s.cfg.DHead, s.cfg.NHead*s.cfg.DHead, g.of.mlen+g.n
	room := w.Room()
	take := func(width int) kernel.Matrix {
		m := kernel.Mat(room[:n*width], n, width)
		room = room[n*width:]
		return m
	}
	qu, qv, near, far := take(d), take(d), take(keys), take(g.reach)
	q, ix := s.queries(l.q, 0, h, 0, n), s.model.Layout.layers[g.layer]
	rw, rr := s.effective[ix.rwBias][h*d:(h+1)*d], s.effective[ix.rrBias][h*d:(h+1)*d]
	for k := range n {
		w.Add(row(qu, k), row(q, k), rw)
		w.Add(row(qv, k), row(q, k), rr)
	}
	if keys > 0 {
		w.MulNT(near, qu, g.of.keys(of.kv, 0, 0, h, keys), false)
	}
	all := g.of.cfg.maxKeys(g.of.T)
	w.MulNT(far, qv, rowsOf(of.r, all-g.reach, all, hd).ColRange(h*d, (h+1)*d), false)
	// One row after the other: scores of the segment's keys, then of the chain's.
	av := s.queries(l.av, 0, h, 0, n)
	for k, chain := range g.chains[:n] {
		scores := room[:keys+len(chain)]
		copy(scores, row(near, k))
		for j, a := range chain {
			key := g.tree.keyed(g.layer, a, 2*hd)[h*d : (h+1)*d]
			scores[keys+j] = w.Dot(row(qu, k), key)
		}
		lo, hi := g.window(len(chain))
		w.Add(scores[lo:hi], scores[lo:hi], row(far, k)[g.reach-(hi-lo):])
		w.Softmax(scores[lo:hi], s.scale())
		clear(scores[:lo])
		copy(row(near, k), scores)
		clear(row(av, k))
		for j, p := range scores[keys:] {
			w.Axpy(row(av, k), p, g.tree.keyed(g.layer, chain[j], 2*hd)[hd+h*d:hd+(h+1)*d])
		}
	}
	if keys > 0 {
		w.MulNN(av, near, g.of.keys(of.kv, 1, 0, h, keys), true)
	}
}
