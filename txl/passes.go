package txl

import "github.com/lmserve/lmserve/internal/kernel"

// rowBlock and colBlock are how many rows, or columns, one parallel task
// takes. They are fixed, so that sums are formed in the same order whatever
// the number of threads.
const (
	rowBlock = 32
	colBlock = 64
)

// rowPass runs a function over blocks of rows in parallel. It lives in the
// segment, so that handing it to Parallel allocates nothing; its fields are
// the function's arguments.
type rowPass struct {
	do          func(p *rowPass, w *kernel.Exec, lo, hi int)
	from, to    int // rows
	width       int
	y, x, z, w  []float32
	gain, bias  []float32
	shift       []float32 // the sub-layer's bias
	norm        *norm
	seg         *Segment
	site, layer int // of dropout
}

// Do implements kernel.Task.
func (p *rowPass) Do(w *kernel.Exec, i int) {
	lo := p.from + i*rowBlock
	p.do(p, w, lo, min(lo+rowBlock, p.to))
}

func (s *Segment) runRows(x *kernel.Exec, p rowPass) {
	s.rows = p
	s.rows.seg = s
	x.Parallel((p.to-p.from+rowBlock-1)/rowBlock, &s.rows)
}

// colPass is rowPass's counterpart for sums over rows: each task owns a block
// of columns and adds up all rows in order.
type colPass struct {
	do      func(p *colPass, w *kernel.Exec, lo, hi int)
	rows    int
	width   int
	y, z, x []float32
	g       []float32
	norm    *norm
}

// Do implements kernel.Task.
func (p *colPass) Do(w *kernel.Exec, i int) {
	lo := i * colBlock
	p.do(p, w, lo, min(lo+colBlock, p.width))
}

func (s *Segment) runCols(x *kernel.Exec, p colPass) {
	s.cols = p
	x.Parallel((p.width+colBlock-1)/colBlock, &s.cols)
}

// addBias adds a vector to rows from..to of y [*,width].
func (s *Segment) addBias(x *kernel.Exec, y, bias []float32, width, from, to int) {
	s.runRows(x, rowPass{do: addBiasRows, y: y, bias: bias, width: width, from: from, to: to})
}

func addBiasRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		y := p.y[r*p.width:][:len(p.bias)]
		w.Add(y, y, p.bias)
	}
}

// add sets y = x + z on rows from..to, all [*,width].
func (s *Segment) add(x *kernel.Exec, y, a, b []float32, width, from, to int) {
	s.runRows(x, rowPass{do: addRows, y: y, x: a, z: b, width: width, from: from, to: to})
}

func addRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	y := p.y[lo*p.width : hi*p.width]
	w.Add(y, p.x[lo*p.width:][:len(y)], p.z[lo*p.width:][:len(y)])
}

// residualRows ends a half of a layer: y = z + drop(x + shift), without shift if it is
// nil, and, if there is a norm, w = LN(y). x is overwritten; y may be x.
func residualRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		x, y := p.x[r*p.width:(r+1)*p.width], p.y[r*p.width:(r+1)*p.width]
		if p.shift != nil {
			w.Add(x, x, p.shift)
		}
		p.seg.dropRows(p.site, p.layer, p.x, p.width, r, r+1)
		w.Add(y, x, p.z[r*p.width:(r+1)*p.width])
		if p.norm != nil {
			p.norm.mean[r], p.norm.rstd[r] = w.LayerNorm(p.w[r*p.width:(r+1)*p.width], y, p.gain, p.bias, LayerNormEps)
		}
	}
}

// sumRows sets y[j] = sum over the rows of g [rows,width]: a bias's gradient.
func (s *Segment) sumRows(x *kernel.Exec, y, g []float32, rows, width int) {
	if y == nil {
		return
	}
	s.runCols(x, colPass{do: sumCols, y: y, g: g, rows: rows, width: width})
}

func sumCols(p *colPass, w *kernel.Exec, lo, hi int) {
	y := p.y[lo:hi]
	clear(y)
	for r := range p.rows {
		w.Add(y, y, p.g[r*p.width+lo:r*p.width+hi])
	}
}
