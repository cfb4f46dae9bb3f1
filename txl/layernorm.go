package txl

// norm holds what backward needs of a layer normalisation: each row's mean
// and reciprocal standard deviation.
type norm struct{ mean, rstd []float32 }

// normPass is y = (x - mean)/sqrt(var + eps) * gain + bias, with the biased variance.
type normPass struct {
	norm       *norm
	y, x       []float32 // [*,D]
	gain, bias []float32 // [D]
}

// layerNorm sets rows from..to of y to the normalised rows of in, by the tensors gain and bias.
func (s *Segment) layerNorm(x *Exec, n *norm, y, in []float32, gain, bias, from, to int) {
	s.pass.norm = normPass{n, y, in, s.vec[gain], s.vec[bias]}
	s.eachRow(x, &s.pass.norm, from, to)
}

func (p *normPass) doRows(w *Exec, lo, hi int) {
	D := len(p.gain)
	for r := lo; r < hi; r++ {
		p.norm.mean[r], p.norm.rstd[r] = w.LayerNorm(rowOf(p.y, r, D), rowOf(p.x, r, D), p.gain, p.bias, LayerNormEps)
	}
}

// normBackwardPass sets dx from dy and the forward's x; dx may be dy.
type normBackwardPass struct {
	norm      *norm
	dx, dy, x []float32 // [*,D]
	gain      []float32 // [D]
}

// layerNormBackward sets dx (rows 0..rows of [*,D]; may be dy itself) and,
// where wanted, the gradients of gain and bias, from dy and the forward's x.
func (s *Segment) layerNormBackward(x *Exec, n *norm, dx, dy, in []float32, gain, bias int, grads Grads, rows int) {
	if grads[gain] != nil || grads[bias] != nil {
		s.pass.normGrads = normGradsPass{n, grads[gain], sumPass{grads[bias], dy, rows}, in, s.cfg.DModel}
		s.eachCol(x, &s.pass.normGrads, s.cfg.DModel)
	}
	s.pass.normBackward = normBackwardPass{n, dx, dy, in, s.vec[gain]}
	s.eachRow(x, &s.pass.normBackward, 0, rows)
}

func (p *normBackwardPass) doRows(w *Exec, lo, hi int) {
	D := len(p.gain)
	for r := lo; r < hi; r++ {
		w.LayerNormBackward(rowOf(p.dx, r, D), rowOf(p.dy, r, D), rowOf(p.x, r, D), p.gain, p.norm.mean[r], p.norm.rstd[r])
	}
}

// normGradsPass sets the gradients of gain and bias; either may be nil.
type normGradsPass struct {
	norm  *norm
	dgain []float32 // [D]
	dbias sumPass
	x     []float32 // [*,D]
	width int       // D
}

func (p *normGradsPass) doCols(w *Exec, lo, hi int) {
	if p.dbias.sum != nil {
		p.dbias.doCols(w, lo, hi)
	}
	if p.dgain == nil {
		return
	}
	dgain, dy := p.dgain[lo:hi], p.dbias.dy
	clear(dgain)
	for r := range p.dbias.rows {
		i, j := r*p.width+lo, r*p.width+hi
		w.LayerNormGain(dgain, dy[i:j], p.x[i:j], p.norm.mean[r], p.norm.rstd[r])
	}
}
