package metanet

import (
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// A Coordinate is a small network with two hidden layers of ReLU. It maps information about one
// weight, or one neuron, to a number. All weights or neurons share this network.
type Coordinate struct{ params []*tape.Var }

// NewCoordinate returns a network with the given numbers of inputs and hidden units. Parameter
// scale multiplies the initial weights of the output layer.
func NewCoordinate(inputs, hidden int, scale float64, r *rand.Rand) *Coordinate {
	c := &Coordinate{}
	for _, shape := range [][2]int{{inputs, hidden}, {hidden, hidden}, {hidden, 1}} {
		c.params = append(c.params, tape.Glorot(shape[0], shape[1], r), tape.New(1, shape[1]))
	}
	for i := range c.params[4].Value {
		c.params[4].Value[i] *= scale
	}
	return c
}

// Params returns the weights.
func (c *Coordinate) Params() []*tape.Var { return c.params }

// Apply returns one number for each row of information. Backward computes no gradient for
// information. To save memory, Apply does not store hidden units: Backward computes them again.
func (c *Coordinate) Apply(t *tape.Tape, information *tape.Var) *tape.Var {
	y, units := tape.New(information.Rows, 1), c.params[0].Cols
	h1, h2 := make([]float64, units), make([]float64, units)
	out := c.params[4]
	for i := range y.Rows {
		c.hidden(information.Row(i), h1, h2)
		sum := c.params[5].Value[0]
		for k, h := range h2 {
			sum += h * out.Value[k]
		}
		y.Value[i] = sum
	}
	t.Record(func() {
		d1, d2 := make([]float64, units), make([]float64, units)
		for i, g := range y.Grad {
			x := information.Row(i)
			c.hidden(x, h1, h2)
			for k, h := range h2 {
				out.Grad[k] += g * h
				d2[k] = g * out.Value[k]
			}
			c.params[5].Grad[0] += g
			clear(d1)
			layerBack(c.params[2], c.params[3], h1, h2, d2, d1)
			layerBack(c.params[0], c.params[1], x, h1, d1, nil)
		}
	})
	return y
}

func (c *Coordinate) hidden(x, h1, h2 []float64) {
	layer(c.params[0], c.params[1], x, h1)
	layer(c.params[2], c.params[3], h1, h2)
}

// layer sets y to ReLU(x w + b).
func layer(w, b *tape.Var, x, y []float64) {
	copy(y, b.Value)
	for i, a := range x {
		if a == 0 {
			continue
		}
		for k, v := range w.Row(i) {
			y[k] += a * v
		}
	}
	for k, v := range y {
		y[k] = max(v, 0)
	}
}

// layerBack adds the gradients of a layer, given the layer's result y and the gradient d with
// respect to y. layerBack overwrites d. Parameter dx may be nil.
func layerBack(w, b *tape.Var, x, y, d, dx []float64) {
	for k := range d {
		if y[k] <= 0 {
			d[k] = 0
		}
		b.Grad[k] += d[k]
	}
	for i, a := range x {
		grad, row, sum := w.Grad[i*w.Cols:][:w.Cols], w.Row(i), 0.
		for k, g := range d {
			grad[k] += g * a
			sum += g * row[k]
		}
		if dx != nil {
			dx[i] += sum
		}
	}
}

// Preprocess returns a row of two numbers for every gradient: its magnitude on a logarithmic scale,
// and its sign (Andrychowicz et al., 2016, appendix A, with p = 7).
func Preprocess(gradients []float64) *tape.Var {
	const p = 7
	v := make([]float64, 2*len(gradients))
	for i, g := range gradients {
		if size := math.Abs(g); size >= math.Exp(-p) {
			v[2*i], v[2*i+1] = math.Log(size)/p, math.Copysign(1, g)
		} else {
			v[2*i], v[2*i+1] = -1, math.Exp(p)*g
		}
	}
	return tape.Const(len(gradients), 2, v)
}

// Attention returns softmax(sharpness * cos(query, key)) over the keys, for every row of queries.
func Attention(t *tape.Tape, queries, keys *tape.Var, sharpness float64) *tape.Var {
	cos := t.MatMulT(t.Unit(queries), t.Unit(keys))
	return t.Softmax(t.Affine(cos, sharpness, 0))
}
