package txl

// activatePass adds the bias to pre and sets act = f(pre). For a gated activation, each row of pre
// is a gate followed by a value, and act = f(gate) value.
type activatePass struct {
	cfg  *Config
	act  []float32 // [*,DInner]
	pre  []float32 // [*,rows of tensor CoreNet.0]
	bias []float32 // [rows of tensor CoreNet.0]
}

func (p *activatePass) doRows(w *Exec, lo, hi int) {
	f, F := activationOf(p.cfg), p.cfg.DInner
	for r := lo; r < hi; r++ {
		act, pre := rowOf(p.act, r, F), rowOf(p.pre, r, len(p.bias))
		w.Add(pre, pre, p.bias)
		f.value(w, act, pre[:F])
		if p.cfg.gated() {
			for j, v := range pre[F:] {
				act[j] *= v
			}
		}
	}
}

// activateBackwardPass computes dpre from dact and pre. pre comes from the forward pass and
// includes the bias.
type activateBackwardPass struct {
	cfg  *Config
	dpre []float32 // [*,rows of tensor CoreNet.0]
	dact []float32 // [*,DInner]
	pre  []float32 // [*,rows of tensor CoreNet.0]
}

func (p *activateBackwardPass) doRows(w *Exec, lo, hi int) {
	f, F := activationOf(p.cfg), p.cfg.DInner
	for r := lo; r < hi; r++ {
		dact := rowOf(p.dact, r, F)
		if !p.cfg.gated() {
			f.backward(w, rowOf(p.dpre, r, F), dact, rowOf(p.pre, r, F))
			continue
		}
		gate, value := rowOf(p.pre, 2*r, F), rowOf(p.pre, 2*r+1, F)
		dgate, dvalue := rowOf(p.dpre, 2*r, F), rowOf(p.dpre, 2*r+1, F)
		f.value(w, dvalue, gate)
		for j, d := range dact {
			dvalue[j] *= d
		}
		f.backward(w, dgate, dact, gate)
		for j, v := range value {
			dgate[j] *= v
		}
	}
}

// activation is an element-wise function f. value sets y = f(x), and backward sets dx = dy f'(x).
type activation struct {
	value    func(w *Exec, y, x []float32)
	backward func(w *Exec, dx, dy, x []float32)
}

func activationOf(c *Config) activation {
	switch c.Activation {
	case GELU, GeGLU:
		return activation{(*Exec).GELU, (*Exec).GELUBackward}
	case SwiGLU:
		return activation{silu, siluBackward}
	default:
		return activation{(*Exec).ReLU, (*Exec).ReLUBackward}
	}
}

func silu(w *Exec, y, x []float32) {
	sigmoid(w, y, x)
	for j, v := range x {
		y[j] *= v
	}
}

func siluBackward(w *Exec, dx, dy, x []float32) {
	sigmoid(w, dx, x)
	for j, v := range x {
		g := dx[j]
		dx[j] = dy[j] * float32(g*(1+float32(v*(1-g))))
	}
}

func sigmoid(w *Exec, y, x []float32) {
	for j, v := range x {
		y[j] = -v
	}
	w.Exp(y, y)
	for j, e := range y {
		y[j] = 1 / (1 + e)
	}
}
