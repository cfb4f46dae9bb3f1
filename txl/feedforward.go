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
	s.runRows(x, rowPass{do: activateRows, y: l.act, x: l.pre, bias: s.vec[ix.b1], width: F, from: r0, to: r1})
	s.dropRows(siteInner, i, l.act, F, r0, r1)

	x.MulNT(rowsOf(s.ff, r0, r1, D), rowsOf(l.act, r0, r1, F), s.weight(ix.w2), false)
	out := s.output(i)
	end := rowPass{do: residualRows, x: s.ff, shift: s.vec[ix.b2], z: l.x, y: l.y2, w: out, norm: &l.norm2, gain: s.vec[ix.gain2], bias: s.vec[ix.bias2],
		site: siteFeedForward, layer: i, width: D, from: r0, to: r1}
	if s.cfg.PreLNorm {
		end.z, end.y, end.norm = l.y1, out, nil
	}
	s.runRows(x, end)
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
	s.runRows(x, rowPass{do: activateBackwardRows, y: s.dhid, x: l.pre, z: s.dinner, width: F, to: rows})
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

// activateRows adds the bias to x and sets y = act(x).
func activateRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	act := activationOf(&p.seg.cfg)
	for r := lo; r < hi; r++ {
		out := p.y[r*p.width : (r+1)*p.width]
		in := p.x[r*len(p.bias) : (r+1)*len(p.bias)]
		w.Add(in, in, p.bias)
		act.value(w, out, in[:p.width])
		if p.seg.cfg.gated() {
			for j, v := range in[p.width:] {
				out[j] *= v
			}
		}
	}
}

// activateBackwardRows sets y = dL/dpre from z = dL/dact and x = pre.
func activateBackwardRows(p *rowPass, w *kernel.Exec, lo, hi int) {
	act := activationOf(&p.seg.cfg)
	for r := lo; r < hi; r++ {
		dact := p.z[r*p.width : (r+1)*p.width]
		if !p.seg.cfg.gated() {
			act.backward(w, p.y[r*p.width:(r+1)*p.width], dact, p.x[r*p.width:(r+1)*p.width])
			continue
		}
		gate, value := p.x[2*r*p.width:(2*r+1)*p.width], p.x[(2*r+1)*p.width:2*(r+1)*p.width]
		dgate, dvalue := p.y[2*r*p.width:(2*r+1)*p.width], p.y[(2*r+1)*p.width:2*(r+1)*p.width]
		act.value(w, dvalue, gate)
		for j, d := range dact {
			dvalue[j] *= d
		}
		act.backward(w, dgate, dact, gate)
		for j, v := range value {
			dgate[j] *= v
		}
	}
}

// activation is an element-wise function: value sets y = f(x), backward
// dx = dy f'(x).
type activation struct {
	value    func(w *kernel.Exec, y, x []float32)
	backward func(w *kernel.Exec, dx, dy, x []float32)
}

func activationOf(c *Config) activation {
	switch c.Activation {
	case GELU, GeGLU:
		return activation{gelu, geluBackward}
	case SwiGLU:
		return activation{silu, siluBackward}
	default:
		return activation{(*kernel.Exec).ReLU, (*kernel.Exec).ReLUBackward}
	}
}

// gelu is x Phi(x), Phi the standard normal distribution function.
func gelu(_ *kernel.Exec, y, x []float32) {
	for j, v := range x {
		y[j] = float32(float64(v) * normalCDF(float64(v)))
	}
}

func geluBackward(_ *kernel.Exec, dx, dy, x []float32) {
	for j, v := range x {
		v := float64(v)
		density := math.Exp(-v*v/2) / math.Sqrt(2*math.Pi)
		dx[j] = dy[j] * float32(normalCDF(v)+float64(v*density))
	}
}

func normalCDF(v float64) float64 { return float64(0.5 * math.Erfc(-v/math.Sqrt2)) }

// silu is x sigmoid(x).
func silu(w *kernel.Exec, y, x []float32) {
	sigmoid(w, y, x)
	for j, v := range x {
		y[j] *= v
	}
}

func siluBackward(w *kernel.Exec, dx, dy, x []float32) {
	sigmoid(w, dx, x)
	for j, v := range x {
		g := dx[j]
		dx[j] = dy[j] * float32(g*(1+float32(v*(1-g))))
	}
}

func sigmoid(w *kernel.Exec, y, x []float32) {
	for j, v := range x {
		y[j] = -v
	}
	w.Exp(y, y)
	for j, e := range y {
		y[j] = 1 / (1 + e)
	}
}
