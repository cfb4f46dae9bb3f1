package txl

import (
	"fmt"
	"math"
)

// reference implements the model in float64 with batch size 1, directly from the equations. It
// shares no code with the package. Tests compare the package with the reference's results and with
// finite differences of its loss.
type reference struct {
	c   Config
	lay *Layout
	w   []float64 // the effective weights W+M
}

func newReference(m *Model, fast Fast) *reference {
	r := &reference{c: m.Config, lay: m.Layout, w: make([]float64, m.Layout.Size)}
	for i, t := range m.Layout.Tensors {
		for j := range t.Size {
			r.w[t.Off+j] = float64(m.W[t.Off+j])
			if len(fast) > 0 && fast[i] != nil {
				r.w[t.Off+j] += float64(fast[i][j])
			}
		}
	}
	return r
}

func (r *reference) tensor(name string) []float64 {
	t := r.lay.Tensors[r.lay.Index(name)]
	return r.w[t.Off : t.Off+t.Size]
}

func linear(x [][]float64, w, bias []float64, out int) [][]float64 {
	y := make([][]float64, len(x))
	for i := range x {
		in := len(x[i])
		y[i] = make([]float64, out)
		for o := range out {
			for k := range in {
				y[i][o] += x[i][k] * w[o*in+k]
			}
			if bias != nil {
				y[i][o] += bias[o]
			}
		}
	}
	return y
}

func layerNorm64(x [][]float64, gain, bias []float64) [][]float64 {
	y := make([][]float64, len(x))
	for i := range x {
		var mean, v float64
		for _, e := range x[i] {
			mean += e / float64(len(x[i]))
		}
		for _, e := range x[i] {
			v += (e - mean) * (e - mean) / float64(len(x[i]))
		}
		y[i] = make([]float64, len(x[i]))
		for j, e := range x[i] {
			y[i][j] = (e-mean)/math.Sqrt(v+1e-5)*gain[j] + bias[j]
		}
	}
	return y
}

func add64(a, b [][]float64) [][]float64 {
	y := make([][]float64, len(a))
	for i := range a {
		y[i] = make([]float64, len(a[i]))
		for j := range a[i] {
			y[i][j] = a[i][j] + b[i][j]
		}
	}
	return y
}

func (r *reference) forward(tokens []int32, mem [][][]float64) (logp [][]float64,
	newMem [][][]float64) {
	h, newMem := r.hidden(tokens, mem)
	for i := range h {
		logp = append(logp, r.distribution(h[i]))
	}
	return logp, newMem
}

func (r *reference) hidden(
	tokens []int32, mem [][][]float64,
) (h [][]float64, newMem [][][]float64) {
	h = make([][]float64, len(tokens))
	for i, id := range tokens {
		h[i] = r.input(int(id))
	}
	for l := range r.c.NLayer {
		c := append(append([][]float64{}, mem[l]...), h...)
		newMem = append(newMem, c[max(0, len(c)-r.c.MemLen):])
		h = r.block(l, h, c)
	}
	return h, newMem
}

func (r *reference) block(l int, h, c [][]float64) [][]float64 {
	name := func(s string) []float64 { return r.tensor("layers." + string(rune('0'+l)) + s) }
	g1, b1 := name(".dec_attn.layer_norm.weight"), name(".dec_attn.layer_norm.bias")
	g2, b2 := name(".pos_ff.layer_norm.weight"), name(".pos_ff.layer_norm.bias")
	keys := c
	if r.c.PreLNorm {
		keys = layerNorm64(c, g1, b1)
	}
	y := add64(h, r.attention(l, keys, len(h), name(".dec_attn.qkv_net.weight"),
		name(".dec_attn.r_net.weight"), name(".dec_attn.o_net.weight")))
	ff := func(x [][]float64) [][]float64 {
		inner := linear(x, name(".pos_ff.CoreNet.0.weight"), name(".pos_ff.CoreNet.0.bias"),
			r.c.dHidden())
		return linear(r.activate(inner), name(".pos_ff.CoreNet.3.weight"),
			name(".pos_ff.CoreNet.3.bias"), r.c.DModel)
	}
	if r.c.PreLNorm {
		return add64(y, ff(layerNorm64(y, g2, b2)))
	}
	x := layerNorm64(y, g1, b1)
	return layerNorm64(add64(x, ff(x)), g2, b2)
}

func (r *reference) bias(l int, name string) []float64 {
	if r.c.UntieR {
		name = fmt.Sprintf("layers.%d.dec_attn.%s", l, name)
	}
	return r.tensor(name)
}

func (r *reference) attention(l int, keys [][]float64, n int, wqkv, wr, wo []float64) [][]float64 {
	H, d, m := r.c.NHead, r.c.DHead, len(keys)-n
	qkv := linear(keys, wqkv, nil, 3*H*d)
	u, v := r.bias(l, "r_w_bias"), r.bias(l, "r_r_bias")
	distances := make([][]float64, len(keys))
	for distance := range distances {
		distances[distance] = r.position(distance)
	}
	rels := linear(distances, wr, nil, H*d)
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, H*d)
		for head := range H {
			var total float64
			weights := make([]float64, len(keys))
			for j := 0; j <= i+m; j++ {
				if r.c.SameLength && i+m-j >= r.c.MemLen {
					continue
				}
				rel := rels[i+m-j]
				var score float64
				for e := range d {
					q := qkv[m+i][head*d+e]
					score += (q+u[head*d+e])*qkv[j][H*d+head*d+e] + (q+v[head*d+e])*rel[head*d+e]
				}
				weights[j] = math.Exp(score / math.Sqrt(float64(d)))
				total += weights[j]
			}
			for j, w := range weights {
				for e := range d {
					out[i][head*d+e] += w / total * qkv[j][2*H*d+head*d+e]
				}
			}
		}
	}
	return linear(out, wo, nil, r.c.DModel)
}

func (r *reference) position(distance int) []float64 {
	if r.c.ClampLen > 0 {
		distance = min(distance, r.c.ClampLen)
	}
	D := r.c.DModel
	p := make([]float64, D)
	for k := range D / 2 {
		f := 1 / math.Pow(10000, 2*float64(k)/float64(D))
		p[k], p[D/2+k] = math.Sin(float64(distance)*f), math.Cos(float64(distance)*f)
	}
	return p
}

func (r *reference) activate(x [][]float64) [][]float64 {
	f := func(v float64) float64 { return max(v, 0) }
	switch r.c.Activation {
	case GELU, GeGLU:
		f = func(v float64) float64 { return v * 0.5 * (1 + math.Erf(v/math.Sqrt2)) }
	case SwiGLU:
		f = func(v float64) float64 { return v / (1 + math.Exp(-v)) }
	}
	y := make([][]float64, len(x))
	for i := range x {
		y[i] = make([]float64, r.c.DInner)
		for j := range y[i] {
			y[i][j] = f(x[i][j])
			if r.c.gated() {
				y[i][j] *= x[i][r.c.DInner+j]
			}
		}
	}
	return y
}

func (r *reference) run(tokens, targets []int32, segment int) (nll []float64, mem [][][]float64) {
	mem = make([][][]float64, r.c.NLayer)
	for at := 0; at < len(tokens); at += segment {
		end := min(at+segment, len(tokens))
		var logp [][]float64
		logp, mem = r.forward(tokens[at:end], mem)
		nll = nll[:0]
		for i := range logp {
			nll = append(nll, -logp[i][targets[at+i]])
		}
	}
	return nll, mem
}
