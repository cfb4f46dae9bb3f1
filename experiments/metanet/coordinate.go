package metanet

import (
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// A Coordinate is a small network that maps the numbers known of a weight or a neuron to one number,
// with the same weights for all of them. It has two hidden layers of ReLU.
type Coordinate struct{ params []*tape.Var }

// NewCoordinate returns a network of the given number of inputs and hidden units, whose outputs are
// initially scaled by scale.
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

// Apply returns one number for each row of information.
func (c *Coordinate) Apply(t *tape.Tape, information *tape.Var) *tape.Var {
	p := c.params
	x := t.ReLU(t.AddRow(t.MatMul(information, p[0]), p[1]))
	x = t.ReLU(t.AddRow(t.MatMul(x, p[2]), p[3]))
	return t.AddRow(t.MatMul(x, p[4]), p[5])
}

// Preprocess returns two numbers for every gradient, one row each: its size on a logarithmic scale and
// its sign (Andrychowicz et al., 2016, appendix A, with p = 7).
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

// Attention returns softmax(sharpness cos(query, key)) over the keys, for every row of queries.
func Attention(t *tape.Tape, queries, keys *tape.Var, sharpness float64) *tape.Var {
	cos := t.MatMulT(t.Unit(queries), t.Unit(keys))
	return t.Softmax(t.Affine(cos, sharpness, 0))
}
