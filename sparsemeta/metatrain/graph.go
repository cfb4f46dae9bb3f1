package metatrain

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/lmserve/lmserve/sparsemeta"
)

// width is the number of nodes in one pass of a graph; larger tables need several passes. Tables of
// newly initialized networks have 100 to 200 nodes.
const width = 192

// network is a gorgonia graph of the meta-learner g. Its matrices have one column for each node of
// the table. The graph never changes: load and place copy weights and nodes into its inputs before
// every run.
type network struct {
	weights gorgonia.Nodes // w1 [20,2], b1 [20,1], w2 [20,20], b2 [20,1], w3 [1,20], b3 [1,1]
	phi     [][]float64
	input   []float64      // [2,width]: row 0 has magnitudes, row 1 has signs
	output  *gorgonia.Node // [1,width]
	vm      gorgonia.VM
}

// defineNetwork adds the meta-learner g to graph. To broadcast a bias over the columns, it
// multiplies the bias by a row of ones. The gradient of the bias is then also a matrix product.
func defineNetwork(graph *gorgonia.ExprGraph) (*network, error) {
	n := new(network)
	x, input := matrix(graph, "x", 2, width)
	ones, one := matrix(graph, "ones", 1, width)
	for i := range one {
		one[i] = 1
	}
	n.input = input
	for _, part := range sparsemeta.Parts() {
		rows, cols := part.Shape[0], 1
		if len(part.Shape) == 2 {
			cols = part.Shape[1]
		}
		node, values := matrix(graph, part.Name, rows, cols)
		n.weights = append(n.weights, node)
		n.phi = append(n.phi, values)
	}
	h := x
	for layer := range 3 {
		var err error
		if layer > 0 {
			if h, err = gorgonia.LeakyRelu(h, sparsemeta.LeakySlope); err != nil {
				return nil, fmt.Errorf("metatrain: graph: layer %d: rectifier: %w", layer, err)
			}
		}
		if h, err = affine(n.weights[2*layer], n.weights[2*layer+1], h, ones); err != nil {
			return nil, fmt.Errorf("metatrain: graph: layer %d: %w", layer+1, err)
		}
	}
	n.output = h
	return n, nil
}

func affine(w, b, x, ones *gorgonia.Node) (*gorgonia.Node, error) {
	wx, err := gorgonia.Mul(w, x)
	if err != nil {
		return nil, err
	}
	spread, err := gorgonia.Mul(b, ones)
	if err != nil {
		return nil, err
	}
	return gorgonia.Add(wx, spread)
}

// matrix adds an input matrix to the graph. Writes to the returned slice change the matrix.
func matrix(graph *gorgonia.ExprGraph, name string, rows, cols int) (*gorgonia.Node, []float64) {
	values := make([]float64, rows*cols)
	dense := tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(values))
	node := gorgonia.NewMatrix(graph, tensor.Float64, gorgonia.WithName(name),
		gorgonia.WithShape(rows, cols), gorgonia.WithValue(dense))
	return node, values
}

func (n *network) load(phi *sparsemeta.Network) {
	for p, part := range sparsemeta.Parts() {
		for i, v := range phi[part.Lo:part.Hi] {
			n.phi[p][i] = float64(v)
		}
	}
}

// place copies nodes lo to hi-1 of the table into the graph. Other columns keep nodes of earlier
// runs; callers ignore the results of these columns.
func (n *network) place(t *sparsemeta.Table, lo, hi int) {
	for i := lo; i < hi; i++ {
		n.input[i-lo], n.input[width+i-lo] = t.Node(i)
	}
}

func (n *network) run() error {
	n.vm.Reset()
	return n.vm.RunAll()
}

type forward struct {
	*network
	values gorgonia.Value
}

func newForward() (*forward, error) {
	graph := gorgonia.NewGraph()
	n, err := defineNetwork(graph)
	if err != nil {
		return nil, err
	}
	f := &forward{network: n}
	gorgonia.Read(n.output, &f.values)
	f.vm = gorgonia.NewTapeMachine(graph)
	return f, nil
}

func (f *forward) evaluate(phi *sparsemeta.Network, t *sparsemeta.Table) error {
	f.load(phi)
	values := t.Values()
	for lo := 0; lo < len(values); lo += width {
		hi := min(lo+width, len(values))
		f.place(t, lo, hi)
		if err := f.run(); err != nil {
			return err
		}
		copy(values[lo:hi], f.values.Data().([]float64))
	}
	return nil
}

// backward computes the gradient of Σ dv[i] g(node i) with respect to the weights of g.
type backward struct {
	*network
	dv []float64 // [1,width]
}

func newBackward() (*backward, error) {
	graph := gorgonia.NewGraph()
	n, err := defineNetwork(graph)
	if err != nil {
		return nil, err
	}
	dv, values := matrix(graph, "dv", 1, width)
	weighted, err := gorgonia.HadamardProd(n.output, dv)
	if err != nil {
		return nil, fmt.Errorf("metatrain: graph: loss: %w", err)
	}
	loss, err := gorgonia.Sum(weighted)
	if err != nil {
		return nil, fmt.Errorf("metatrain: graph: loss: %w", err)
	}
	if _, err := gorgonia.Grad(loss, n.weights...); err != nil {
		return nil, fmt.Errorf("metatrain: graph: gradient: %w", err)
	}
	n.vm = gorgonia.NewTapeMachine(graph, gorgonia.BindDualValues(n.weights...))
	return &backward{network: n, dv: values}, nil
}

// gradient adds the gradient of Σ dv[i] g(node i) to grad, which has one element for each of the
// 501 weights.
func (b *backward) gradient(phi *sparsemeta.Network, t *sparsemeta.Table, dv,
	grad []float64) error {
	b.load(phi)
	for lo := 0; lo < len(dv); lo += width {
		hi := min(lo+width, len(dv))
		b.place(t, lo, hi)
		clear(b.dv[copy(b.dv, dv[lo:hi]):])
		if err := b.run(); err != nil {
			return err
		}
		if err := b.collect(grad); err != nil {
			return err
		}
	}
	return nil
}

// collect adds the gradient that the graph has computed to grad. It then clears the graph's
// gradient, because gorgonia accumulates gradients from run to run.
func (b *backward) collect(grad []float64) error {
	for p, part := range sparsemeta.Parts() {
		value, err := b.weights[p].Grad()
		if err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
		data, ok := value.Data().([]float64)
		if !ok || len(data) != part.Hi-part.Lo {
			return fmt.Errorf("%s: found a gradient of type %T, want %d numbers of type "+
				"float64", part.Name,
				value.Data(), part.Hi-part.Lo)
		}
		for i, d := range data {
			grad[part.Lo+i] += d
		}
		clear(data)
	}
	return nil
}
