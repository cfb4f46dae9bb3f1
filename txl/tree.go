package txl

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// Tree contains the keys and values of several alternative continuations of a segment. A row
// attends to the segment's memory, the segment's rows and its ancestors in the tree. The caller
// numbers the rows from small integers, and may reuse a number. The zero Tree is empty.
type Tree struct {
	parents []int32     // parent of each row, or NoRow if the row directly follows the segment
	kv      [][]float32 // for each layer: keys, then values [rows,2*H*d]
}

// NoRow is the parent of a row that directly follows the segment.
const NoRow = -1

// Bytes returns the number of bytes that the tree occupies.
func (t *Tree) Bytes() (bytes int64) {
	bytes = 4 * int64(cap(t.parents))
	for _, kv := range t.kv {
		bytes += 4 * int64(cap(kv))
	}
	return bytes
}

// keyed returns the keys and values of a row of layer i. width is the number of elements of both.
func (t *Tree) keyed(i int, row int32, width int) []float32 {
	return rowOf(t.kv[i], int(row),
		width)
}

// Grower is the working space to grow trees. Begin sets the segment that the trees continue.
type Grower struct {
	work *Segment
	of   *Segment
	n    int // number of the segment's rows before the trees

	// The fields tree, chains, reach and layer belong to the running Grow. A chain is the path of a
	// row: its ancestors, the oldest first, then the row. reach is the number of distances in use.
	tree   *Tree
	chains [][]int32
	reach  int
	layer  int
}

// NewGrower allocates working space for trees that continue segments of one stream, with the
// configuration of a given segment. Each call of Grow can compute at most the given number of rows.
func NewGrower(of *Segment, rows int) *Grower {
	return &Grower{work: NewSegment(withoutMemory(of.cfg), 1, rows)}
}

// NewGrowerBeside allocates working space for trees that continue a segment from NewBeside. Each
// method call must follow an equal call on g with the same rows, because it uses results of g.
func NewGrowerBeside(g *Grower) *Grower { return &Grower{work: NewBeside(g.work)} }

// GrowerBytes returns the number of bytes that a Grower and its partner from NewGrowerBeside
// occupy, except for a negligible part.
func GrowerBytes(c Config, rows int) int64 {
	c = withoutMemory(c)
	return SegmentBytes(c, 1, rows) + BesideBytes(c, 1, rows)
}

func withoutMemory(c Config) Config {
	c.MemLen, c.SameLength = 0, false
	return c
}

// Begin sets the segment that the next trees continue: they follow its first n rows, with its
// present weights. The segment must keep these rows and weights while the trees grow.
func (g *Grower) Begin(of *Segment, n int) {
	g.of, g.n = of, n
	s := g.work
	s.model, s.fast, s.first = of.model, of.fast, of.first
	copy(s.effective, of.effective)
}

// Grow computes some rows of a tree. Row rows[i] reads tokens[i] after row parents[i]. A parent is
// NoRow, a row of an earlier call, or an earlier row of this call. The results equal those of a
// segment that reads the tokens on the row's path, up to rounding. A path that is too long for the
// segment corresponds to Continue with unchanged weights.
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

// LogProbs writes the log-probabilities, in nats, of the token after row i of the last Grow to dst
// [V].
func (g *Grower) LogProbs(i int, dst []float32) { g.work.LogProbs(i, 0, dst) }

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

// window returns the range of keys that the last row of a chain attends to. The keys of the segment
// precede the keys of the chain. The range is that of a segment that reads the tokens of the chain.
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

// attend computes attention in layer i for the rows of the running Grow, like Segment.attend.
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

// Do implements kernel.Task: it computes attention head h.
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
