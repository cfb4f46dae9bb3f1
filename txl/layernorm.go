package txl

// norm holds the values of a layer normalization that backward needs: each row's mean and
// reciprocal standard deviation.
type norm struct{ mean, rstd []float32 }

func (n norm) from(row int) norm { return norm{n.mean[row:], n.rstd[row:]} }

// normPass computes y = (x - mean)/sqrt(var + eps) * gain + bias, with the biased variance.
type normPass struct {
	norm       norm
	y, x       []float32 // [*,D]
	gain, bias []float32
}

func (p *normPass) doRows(w *Exec, lo, hi int) {
	D := len(p.gain)
	for r := lo; r < hi; r++ {
		p.norm.mean[r], p.norm.rstd[r] = w.LayerNorm(rowOf(p.y, r, D), rowOf(p.x, r, D), p.gain,
			p.bias, LayerNormEps)
	}
}

// normBackwardPass computes dx from dy and the input x of the forward pass. dx may be dy.
type normBackwardPass struct {
	norm      norm
	dx, dy, x []float32 // [*,D]
	gain      []float32
}

func (p *normBackwardPass) doRows(w *Exec, lo, hi int) {
	D := len(p.gain)
	for r := lo; r < hi; r++ {
		w.LayerNormBackward(rowOf(p.dx, r, D), rowOf(p.dy, r, D), rowOf(p.x, r, D), p.gain,
			p.norm.mean[r], p.norm.rstd[r])
	}
}

// normGradsPass computes the gradients of gain and bias. Either gradient may be nil.
type normGradsPass struct {
	norm  norm
	dgain []float32
	dbias sumPass
	x     []float32
	width int
}

func (p *normGradsPass) doCols(w *Exec, lo, hi int) {
	if p.dgain == nil {
		p.dbias.doCols(w, lo, hi)
		return
	}
	var dbias []float32
	if p.dbias.sum != nil {
		dbias = p.dbias.sum[lo:hi]
	}
	dgain := p.dgain[lo:hi]
	clear(dbias)
	clear(dgain)
	for r := range p.dbias.rows {
		i, j := r*p.width+lo, r*p.width+hi
		dy := p.dbias.dy[i:j]
		if dbias != nil {
			w.Add(dbias, dbias, dy)
		}
		w.LayerNormGain(dgain, dy, p.x[i:j], p.norm.mean[r], p.norm.rstd[r])
	}
}
