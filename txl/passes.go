package txl

// rowBlock and colBlock are how many rows, or columns, one parallel task takes. They are fixed,
// so that sums are formed in the same order whatever the number of threads.
const (
	rowBlock = 32
	colBlock = 64
)

// rowTask is an operation on the rows of matrices, each row by itself.
type rowTask interface {
	doRows(w *Exec, lo, hi int)
}

// rowPass is a rowTask under way.
type rowPass struct {
	task     rowTask
	from, to int // rows
}

// Do implements kernel.Task: it does block i of the rows.
func (p *rowPass) Do(w *Exec, i int) {
	lo := p.from + i*rowBlock
	p.task.doRows(w, lo, min(lo+rowBlock, p.to))
}

// eachRow does rows from..to in parallel. The task lives in the segment, so that handing it on
// allocates nothing.
func (s *Segment) eachRow(x *Exec, t rowTask, from, to int) {
	s.rows = rowPass{t, from, to}
	x.Parallel((to-from+rowBlock-1)/rowBlock, &s.rows)
}

// colTask is an operation whose results are sums over rows: whoever has a block of columns adds
// up all rows in order.
type colTask interface {
	doCols(w *Exec, lo, hi int)
}

// colPass is a colTask under way.
type colPass struct {
	task  colTask
	width int
}

// Do implements kernel.Task: it does block i of the columns.
func (p *colPass) Do(w *Exec, i int) {
	lo := i * colBlock
	p.task.doCols(w, lo, min(lo+colBlock, p.width))
}

// eachCol does all columns in parallel.
func (s *Segment) eachCol(x *Exec, t colTask, width int) {
	s.cols = colPass{t, width}
	x.Parallel((width+colBlock-1)/colBlock, &s.cols)
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

// rowOf is row r of a matrix with rows of the given width.
func rowOf(m []float32, r, width int) []float32 { return m[r*width : (r+1)*width] }

// biasPass adds a vector to every row: y += bias.
type biasPass struct{ y, bias []float32 } // [*,width], [width]

func (s *Segment) addBias(x *Exec, y, bias []float32, from, to int) {
	s.pass.bias = biasPass{y, bias}
	s.eachRow(x, &s.pass.bias, from, to)
}

func (p *biasPass) doRows(w *Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		y := rowOf(p.y, r, len(p.bias))
		w.Add(y, y, p.bias)
	}
}

// addPass adds matrices: sum = a + b.
type addPass struct {
	sum, a, b []float32 // [*,width]
	width     int
}

func (s *Segment) add(x *Exec, sum, a, b []float32, width, from, to int) {
	s.pass.add = addPass{sum, a, b, width}
	s.eachRow(x, &s.pass.add, from, to)
}

func (p *addPass) doRows(w *Exec, lo, hi int) {
	i, j := lo*p.width, hi*p.width
	w.Add(p.sum[i:j], p.a[i:j], p.b[i:j])
}

// residualPass ends a half of a layer:
//
//	sum = residual + drop(branch + bias)     without bias if it is nil
//	normed = LN(sum)                         if there is a norm
//
// branch is overwritten; sum may be branch.
type residualPass struct {
	s                            *Segment
	branch, residual, sum        []float32 // [*,D]
	bias                         []float32 // [D]
	normed, normGain, normOffset []float32 // [*,D], [D], [D]
	norm                         *norm
	site, layer                  int // of dropout
}

func (p *residualPass) doRows(w *Exec, lo, hi int) {
	D := p.s.cfg.DModel
	for r := lo; r < hi; r++ {
		branch, sum := rowOf(p.branch, r, D), rowOf(p.sum, r, D)
		if p.bias != nil {
			w.Add(branch, branch, p.bias)
		}
		p.s.dropRows(p.site, p.layer, p.branch, D, r, r+1)
		w.Add(sum, branch, rowOf(p.residual, r, D))
		if n := p.norm; n != nil {
			n.mean[r], n.rstd[r] = w.LayerNorm(rowOf(p.normed, r, D), sum, p.normGain, p.normOffset, LayerNormEps)
		}
	}
}

// sumPass is a bias's gradient: sum[j] = the sum of dy[r,j] over the rows.
type sumPass struct {
	sum, dy []float32 // [width], [rows,width]
	rows    int
}

// sumRows does nothing where the sum is not wanted.
func (s *Segment) sumRows(x *Exec, sum, dy []float32, rows int) {
	if sum == nil {
		return
	}
	s.pass.sum = sumPass{sum, dy, rows}
	s.eachCol(x, &s.pass.sum, len(sum))
}

func (p *sumPass) doCols(w *Exec, lo, hi int) {
	width, sum := len(p.sum), p.sum[lo:hi]
	clear(sum)
	for r := range p.rows {
		w.Add(sum, sum, p.dy[r*width+lo:r*width+hi])
	}
}
