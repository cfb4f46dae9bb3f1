package txl

import "github.com/lmserve/lmserve/internal/kernel"

// norm holds what backward needs of a layer normalisation: each row's mean
// and reciprocal standard deviation.
type norm struct{ mean, rstd []float32 }

// layerNorm sets y = (x - mean)/sqrt(var + eps) * gain + bias on rows
// from..to of [*,D], with the biased variance.
func (s *Segment) layerNorm(x *kernel.Exec, n *norm, y, in []float32, gain, bias, from, to int) {
	s.runRows(x, rowPass{do: layerNormRows, y: y, x: in, norm: n, gain: s.vec[gain], bias: s.vec[bias],
		width: s.cfg.DModel, from: from, to: to})
}

func layerNormRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		x, y := p.x[r*p.width:(r+1)*p.width], p.y[r*p.width:(r+1)*p.width]
		p.norm.mean[r], p.norm.rstd[r] = w.LayerNorm(y, x, p.gain, p.bias, LayerNormEps)
	}
}

// layerNormBackward sets dx (rows 0..rows of [*,D]; may be dy itself) and,
// where wanted, the gradients of gain and bias, from dy and the forward's x.
func (s *Segment) layerNormBackward(x *kernel.Exec, n *norm, dx, dy, in []float32, gain, bias int, grads Grads, rows int) {
	if grads[gain] != nil || grads[bias] != nil {
		s.runCols(x, colPass{do: layerNormCols, y: grads[gain], z: grads[bias], g: dy, x: in, norm: n, rows: rows, width: s.cfg.DModel})
	}
	s.runRows(x, rowPass{do: layerNormBackwardRows, y: dx, z: dy, x: in, norm: n, gain: s.vec[gain],
		width: s.cfg.DModel, to: rows})
}

func layerNormBackwardRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	for r := lo; r < hi; r++ {
		x, dy, dx := p.x[r*p.width:(r+1)*p.width], p.z[r*p.width:(r+1)*p.width], p.y[r*p.width:(r+1)*p.width]
		w.LayerNormBackward(dx, dy, x, p.gain, p.norm.mean[r], p.norm.rstd[r])
	}
}

func layerNormCols(p *colPass, w *kernel.Exec, lo, hi int) {
	if p.z != nil {
		sumCols(&colPass{y: p.z, g: p.g, rows: p.rows, width: p.width}, w, lo, hi)
	}
	if p.y == nil {
		return
	}
	dgain := p.y[lo:hi]
	clear(dgain)
	for r := range p.rows {
		at := r * p.width
		w.LayerNormGain(dgain, p.g[at+lo:at+hi], p.x[at+lo:at+hi], p.norm.mean[r], p.norm.rstd[r])
	}
}
