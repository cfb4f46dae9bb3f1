package txl

// rowBlock is the number of rows in one parallel task, and colBlock the minimum number of columns.
const (
	rowBlock = 32
	colBlock = 64
)

// rowTask is an operation on matrices that computes each row independently.
type rowTask interface {
	doRows(w *Exec, lo, hi int)
}

type rowPass struct {
	task     rowTask
	from, to int
}

// Do implements kernel.Task: it processes block i of the rows.
func (p *rowPass) Do(w *Exec, i int) {
	lo := p.from + i*rowBlock
	p.task.doRows(w, lo, min(lo+rowBlock, p.to))
}

// colTask is an operation that sums over rows. Each parallel task has a block of columns, and sums
// all rows in order. So the number of columns in a block does not affect results.
type colTask interface {
	doCols(w *Exec, lo, hi int)
}

type colPass struct {
	task         colTask
	width, block int
}

// Do implements kernel.Task: it processes block i of the columns.
func (p *colPass) Do(w *Exec, i int) {
	lo := i * p.block
	p.task.doCols(w, lo, min(lo+p.block, p.width))
}

// rowOf returns row r of a matrix with rows of the given width.
func rowOf(m []float32, r, width int) []float32 { return m[r*width : (r+1)*width] }

// biasPass adds bias to the first columns of every row of y.
type biasPass struct {
	y, bias []float32
	width   int
}

func (p *biasPass) doRows(w *Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		y := p.y[r*p.width:][:len(p.bias)]
		w.Add(y, y, p.bias)
	}
}

type addPass struct {
	sum, a, b []float32
	width     int
}

func (p *addPass) doRows(w *Exec, lo, hi int) {
	i, j := lo*p.width, hi*p.width
	w.Add(p.sum[i:j], p.a[i:j], p.b[i:j])
}

// sumPass computes the gradient of a bias: sum[j] is the sum of dy[r,j] over the rows r. If acc is
// true, the result is added to the old sum[j].
type sumPass struct {
	sum, dy     []float32 // sum has at most width elements; dy is [rows,width]
	rows, width int
	acc         bool
}

func (p *sumPass) doCols(w *Exec, lo, hi int) {
	sum := p.sum[lo:hi]
	if !p.acc {
		clear(sum)
	}
	for r := range p.rows {
		w.Add(sum, sum, p.dy[r*p.width+lo:r*p.width+hi])
	}
}

// softmaxPass replaces each row of logits by the softmax of the row, times factor.
type softmaxPass struct {
	logits []float32
	width  int
	factor float32
}

func (p *softmaxPass) doRows(w *Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		y := rowOf(p.logits, r, p.width)
		w.Softmax(y, 1)
		w.Scale(y, p.factor)
	}
}
