package txl

import (
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
)

// feedForward computes rows n0..n1 of layer i's second half,
//
//	out = LN(x + W2 act(W1 x + b1) + b2)        (pre-norm: y1 + W2 act(W1 LN(y1) + b1) + b2)
//
// and writes them as the next layer's input.
func (s *Segment) feedForward(x *kernel.Exec, i, n0, n1 int) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, F, F1 := s.cfg.DModel, s.cfg.DInner, s.cfg.dHidden()
	r0, r1 := n0*s.B, n1*s.B
	x.MulNT(rowsOf(l.pre, r0, r1, F1), rowsOf(l.x, r0, r1, D), s.weight(ix.w1), false)
	s.addBias(x, l.pre, s.vec[ix.b1], F1, r0, r1)
	s.runRows(x, rowPass{do: activateRows, y: l.act, x: l.pre, width: F, from: r0, to: r1})
	s.dropRows(siteInner, i, l.act, F, r0, r1)

	ff := s.wide[:s.T*s.B*D]
	x.MulNT(rowsOf(ff, r0, r1, D), rowsOf(l.act, r0, r1, F), s.weight(ix.w2), false)
	s.addBias(x, ff, s.vec[ix.b2], D, r0, r1)
	s.dropRows(siteFeedForward, i, ff, D, r0, r1)
	out := s.output(i)
	if s.cfg.PreLNorm {
		s.add(x, out, l.y1, ff, D, r0, r1)
	} else {
		s.add(x, l.y2, l.x, ff, D, r0, r1)
		s.layerNorm(x, &l.norm2, out, l.y2, ix.gain2, ix.bias2, r0, r1)
	}
	if i+1 == len(s.layers) {
		s.dropRows(siteOutput, 0, out, D, r0, r1)
	}
}

// feedForwardBackward takes dL/dout in s.dx and leaves dL/dy1 (post-norm:
// before norm1) in both s.dx, as the residual's part, and s.dy, as o's.
func (s *Segment) feedForwardBackward(x *kernel.Exec, i int, grads Grads) {
	l, ix := &s.layers[i], s.model.Layout.layers[i]
	D, F, F1, rows := s.cfg.DModel, s.cfg.DInner, s.cfg.dHidden(), s.n*s.B
	if !s.cfg.PreLNorm {
		s.layerNormBackward(x, &l.norm2, s.dx, s.dx, l.y2, ix.gain2, ix.bias2, grads, rows)
	}
	copy(s.dy[:rows*D], s.dx)
	dff := rowsOf(s.dy, 0, rows, D)
	s.dropRows(siteFeedForward, i, s.dy, D, 0, rows)
	s.sumRows(x, grads[ix.b2], s.dy, rows, D)
	if g := grads[ix.w2]; g != nil {
		x.MulTN(kernel.Mat(g, D, F), dff, rowsOf(l.act, 0, rows, F), false)
	}
	x.MulNN(rowsOf(s.dinner, 0, rows, F), dff, s.weight(ix.w2), false)
	s.dropRows(siteInner, i, s.dinner, F, 0, rows)
	s.runRows(x, rowPass{do: activateBackwardRows, y: s.dhid, x: l.pre, z: s.dinner, w: s.wide, width: F, to: rows})
	s.sumRows(x, grads[ix.b1], s.dhid, rows, F1)
	dhid := rowsOf(s.dhid, 0, rows, F1)
	if g := grads[ix.w1]; g != nil {
		x.MulTN(kernel.Mat(g, F1, D), dhid, rowsOf(l.x, 0, rows, D), false)
	}
	if s.cfg.PreLNorm {
		x.MulNN(rowsOf(s.dsub, 0, rows, D), dhid, s.weight(ix.w1), false)
		s.layerNormBackward(x, &l.norm2, s.dsub, s.dsub, l.y1, ix.gain2, ix.bias2, grads, rows)
		s.add(x, s.dx, s.dx, s.dsub, D, 0, rows)
	} else {
		x.MulNN(rowsOf(s.dx, 0, rows, D), dhid, s.weight(ix.w1), true)
		s.layerNormBackward(x, &l.norm1, s.dx, s.dx, l.y1, ix.gain1, ix.bias1, grads, rows)
	}
	copy(s.dy[:rows*D], s.dx)
}

func activateRows(p *rowPass, lo, hi int) {
	act := activationOf(&p.seg.cfg)
	for r := lo; r < hi; r++ {
		out := p.y[r*p.width : (r+1)*p.width]
		if p.seg.cfg.gated() {
			in := p.x[2*r*p.width : 2*(r+1)*p.width]
			act.value(out, in[:p.width])
			for j, v := range in[p.width:] {
				out[j] *= v
			}
		} else {
			act.value(out, p.x[r*p.width:(r+1)*p.width])
		}
	}
}

// activateBackwardRows sets y = dL/dpre from z = dL/dact and x = pre, with w
// [*,F] as scratch.
func activateBackwardRows(p *rowPass, lo, hi int) {
	act := activationOf(&p.seg.cfg)
	for r := lo; r < hi; r++ {
		dact := p.z[r*p.width : (r+1)*p.width]
		tmp := p.w[r*p.width : (r+1)*p.width]
		if !p.seg.cfg.gated() {
			act.slope(tmp, p.x[r*p.width:(r+1)*p.width])
			for j, d := range dact {
				p.y[r*p.width+j] = d * tmp[j]
			}
			continue
		}
		gate, value := p.x[2*r*p.width:(2*r+1)*p.width], p.x[(2*r+1)*p.width:2*(r+1)*p.width]
		dgate, dvalue := p.y[2*r*p.width:(2*r+1)*p.width], p.y[(2*r+1)*p.width:2*(r+1)*p.width]
		act.value(tmp, gate)
		for j, d := range dact {
			dvalue[j] = d * tmp[j]
		}
		act.slope(tmp, gate)
		for j, d := range dact {
			dgate[j] = float32(d*value[j]) * tmp[j]
		}
	}
}

// activation is an element-wise function and its derivative.
type activation struct {
	value, slope func(y, x []float32)
}

func activationOf(c *Config) activation {
	switch c.Activation {
	case GELU, GeGLU:
		return activation{gelu, geluSlope}
	case SwiGLU:
		return activation{silu, siluSlope}
	default:
		return activation{relu, reluSlope}
	}
}

func relu(y, x []float32) {
	for j, v := range x {
		y[j] = max(v, 0)
	}
}

func reluSlope(y, x []float32) {
	for j, v := range x {
		y[j] = 0
		if v > 0 {
			y[j] = 1
		}
	}
}

// gelu is x Phi(x), Phi the standard normal distribution function.
func gelu(y, x []float32) {
	for j, v := range x {
		y[j] = float32(float64(v) * normalCDF(float64(v)))
	}
}

func geluSlope(y, x []float32) {
	for j, v := range x {
		v := float64(v)
		density := math.Exp(-v*v/2) / math.Sqrt(2*math.Pi)
		y[j] = float32(normalCDF(v) + float64(v*density))
	}
}

func normalCDF(v float64) float64 { return 0.5 * math.Erfc(-v/math.Sqrt2) }

// silu is x sigmoid(x).
func silu(y, x []float32) {
	sigmoid(y, x)
	for j, v := range x {
		y[j] *= v
	}
}

func siluSlope(y, x []float32) {
	sigmoid(y, x)
	for j, v := range x {
		g := y[j]
		y[j] = g * (1 + float32(v*(1-g)))
	}
}

func sigmoid(y, x []float32) {
	for j, v := range x {
		y[j] = -v
	}
	kernel.Exp(y, y)
	for j, e := range y {
		y[j] = 1 / (1 + e)
	}
}
