package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// norm holds what backward needs of a layer normalisation: each row's mean
// and reciprocal standard deviation.
type norm struct{ mean, rstd []float32 }

// layerNorm sets y = (x - mean)/sqrt(var + eps) * gain + bias on rows
// from..to of [*,D], with the biased variance.
func (s *Segment) layerNorm(x *kernel.Exec, n *norm, y, in []float32, gain, bias, from, to int) {
	s.runRows(x, rowPass{do: layerNormRows, y: y, x: in, norm: n, gain: s.vec[gain], bias: s.vec[bias],
		width: s.cfg.DModel, from: from, to: to})
}

func layerNormRows(p *rowPass, lo, hi int) {
	for r := lo; r < hi; r++ {
		x, y := p.x[r*p.width:(r+1)*p.width], p.y[r*p.width:(r+1)*p.width]
		mean, rstd := moments(x)
		p.norm.mean[r], p.norm.rstd[r] = mean, rstd
		for j, v := range x {
			y[j] = float32((v-mean)*rstd*p.gain[j]) + p.bias[j]
		}
	}
}

// moments returns a row's mean and 1/sqrt(variance + eps). Sums are kept in
// float64: they are short and decide the whole row.
func moments(x []float32) (mean, rstd float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	m := sum / float64(len(x))
	var sq float64
	for _, v := range x {
		d := float64(v) - m
		sq += float64(d * d)
	}
	return float32(m), float32(1 / math.Sqrt(sq/float64(len(x))+LayerNormEps))
}

// layerNormBackward sets dx (rows 0..rows of [*,D]; may be dy itself) and,
// where wanted, the gradients of gain and bias, from dy and the forward's x:
//
//	dx = rstd (g dy - mean(g dy) - xhat mean(g dy xhat))
func (s *Segment) layerNormBackward(x *kernel.Exec, n *norm, dx, dy, in []float32, gain, bias int, grads Grads, rows int) {
	if grads[gain] != nil || grads[bias] != nil {
		s.runCols(x, colPass{do: layerNormCols, y: grads[gain], z: grads[bias], g: dy, x: in, norm: n, rows: rows, width: s.cfg.DModel})
	}
	s.runRows(x, rowPass{do: layerNormBackwardRows, y: dx, z: dy, x: in, norm: n, gain: s.vec[gain],
		width: s.cfg.DModel, to: rows})
}

func layerNormBackwardRows(p *rowPass, lo, hi int) {
	for r := lo; r < hi; r++ {
		x, dy, dx := p.x[r*p.width:(r+1)*p.width], p.z[r*p.width:(r+1)*p.width], p.y[r*p.width:(r+1)*p.width]
		mean, rstd := p.norm.mean[r], p.norm.rstd[r]
		var sum, dot float64
		for j, d := range dy {
			g := float64(d * p.gain[j])
			sum += g
			dot += float64(g * float64((x[j]-mean)*rstd))
		}
		meanG, meanGX := float32(sum/float64(len(x))), float32(dot/float64(len(x)))
		for j, d := range dy {
			xhat := (x[j] - mean) * rstd
			dx[j] = rstd * (float32(d*p.gain[j]) - meanG - float32(xhat*meanGX))
		}
	}
}

func layerNormCols(p *colPass, lo, hi int) {
	if p.z != nil {
		sumCols(&colPass{y: p.z, g: p.g, rows: p.rows, width: p.width}, lo, hi)
	}
	if p.y == nil {
		return
	}
	dgain := p.y[lo:hi]
	clear(dgain)
	for r := range p.rows {
		mean, rstd := p.norm.mean[r], p.norm.rstd[r]
		x := p.x[r*p.width+lo : r*p.width+hi]
		for j, g := range p.g[r*p.width+lo : r*p.width+hi] {
			dgain[j] += float32(g * float32((x[j]-mean)*rstd))
		}
	}
}
