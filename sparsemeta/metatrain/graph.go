package metatrain

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/lmserve/lmserve/sparsemeta"
)

// width is the number of nodes in one pass of a graph; larger tables need several passes. Freshly
// initialized networks have 100 to 200.
const width = 192

// network is g as a gorgonia graph, with one column for each node of the table. The graph is
// static; weights and nodes are copied into its inputs before every run.
type network struct {
	weights gorgonia.Nodes // w1 [20,2], b1 [20,1], w2 [20,20], b2 [20,1], w3 [1,20], b3 [1,1]
	phi     [][]float64    // the values of weights
	input   []float64      // [2,width]: magnitudes, then signs
	output  *gorgonia.Node // [1,width]
	vm      gorgonia.VM
}

// defineNetwork adds g to graph. Each bias is broadcast over the columns by a product with a row
// of ones, so that its gradient is a product, too.
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

// affine returns w x + b ones.
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

// matrix adds an input to the graph and returns the memory of its value.
func matrix(graph *gorgonia.ExprGraph, name string, rows, cols int) (*gorgonia.Node, []float64) {
	values := make([]float64, rows*cols)
	dense := tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(values))
	node := gorgonia.NewMatrix(graph, tensor.Float64, gorgonia.WithName(name),
		gorgonia.WithShape(rows, cols), gorgonia.WithValue(dense))
	return node, values
}

// load copies the weights into the graph.
func (n *network) load(phi *sparsemeta.Network) {
	for p, part := range sparsemeta.Parts() {
		for i, v := range phi[part.Lo:part.Hi] {
			n.phi[p][i] = float64(v)
		}
	}
}

// place copies nodes lo to hi-1 of the table into the graph. Columns beyond them keep nodes of
// earlier runs, and their results are not used.
func (n *network) place(t *sparsemeta.Table, lo, hi int) {
	for i := lo; i < hi; i++ {
		n.input[i-lo], n.input[width+i-lo] = t.Node(i)
	}
}

func (n *network) run() error {
	n.vm.Reset()
	return n.vm.RunAll()
}

// forward computes g at the nodes.
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

// evaluate sets the table's values at its nodes to those of phi.
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

// backward computes the gradient of sum(dv g(nodes)) with respect to the weights.
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

// gradient adds the gradient of sum(dv g(nodes)) to grad, an array for all 501 weights.
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

// collect adds the gradient in the gorgonia machine to grad. Then it clears the machine's gradient,
// since gorgonia accumulates from run to run.
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
