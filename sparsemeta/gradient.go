package sparsemeta

import (
	"fmt"
)

// NodeGradients are the derivatives of a loss with respect to the values of the meta-learners g at
// their nodes, as [bank][branch][node]. The derivatives are summed over any number of chunks.
type NodeGradients [][][]float64

// Gradients returns zero gradients for the nodes of the tables. It reuses the memory of the
// parameter reuse if it is large enough. The gradients are invalid once the tables' nodes change.
func (t Tables) Gradients(reuse NodeGradients) NodeGradients {
	if len(reuse) != len(t) {
		reuse = make(NodeGradients, len(t))
	}
	for bank, tables := range t {
		if len(reuse[bank]) != len(tables) {
			reuse[bank] = make([][]float64, len(tables))
		}
		for branch, table := range tables {
			nodes := len(table.values)
			if cap(reuse[bank][branch]) < nodes {
				reuse[bank][branch] = make([]float64, nodes, 2*nodes)
			}
			reuse[bank][branch] = reuse[bank][branch][:nodes]
			clear(reuse[bank][branch])
		}
	}
	return reuse
}

// NodeGradient adds the gradient of one chunk's loss to dv. g is an arena with the gradient G of
// the loss with respect to W + M, taken before the following update. The state must be traced. For
// an element that was written, M = out g(x), where x is the input of the last write. NodeGradient
// adds the element's
//
//	G dM/dg = G out
//
// to the two nodes of the piece of g that contains x. Backpropagation from the nodes' values then
// gives sum G d(out g(x))/dphi, the gradient with respect to the meta-weights phi. It is first
// order: G and x count as constants.
//
// With every = n > 1 NodeGradient estimates this sum. It divides a large branch into runs of
// elements. After each update it uses every n-th run, beginning at a different run, and multiplies
// the gradients of these runs by n. The estimate is accurate enough: a branch has many more
// elements than nodes, and chunks differ more from each other than the runs of one chunk.
//
// A thread processes a whole branch in the order of its elements, so the result does not depend
// on the number of threads.
func (s *State) NodeGradient(x *Exec, t Tables, out float32, g []float32, every int,
	dv NodeGradients) {
	s.check("NodeGradient", t, g)
	if s.X == nil {
		panic("sparsemeta: NodeGradient: the state is not traced")
	}
	if err := t.CheckGradients(dv); err != nil {
		panic(err.Error())
	}
	s.scatter = scatterJob{s: s, tables: t, out: float64(out), g: g, every: every, dv: dv}
	x.Parallel(len(s.M)*len(s.branches), &s.scatter)
	s.scatter = scatterJob{}
}

// CheckGradients returns an error if dv and the tables differ in their numbers of banks, branches
// or nodes.
func (t Tables) CheckGradients(dv NodeGradients) error {
	if len(dv) != len(t) {
		return fmt.Errorf("sparsemeta: node gradients: found %d banks, want %d", len(dv), len(t))
	}
	for bank := range t {
		if len(dv[bank]) != len(t[bank]) {
			return fmt.Errorf("sparsemeta: node gradients: bank %d: found %d branches, want %d",
				bank, len(dv[bank]), len(t[bank]))
		}
		for branch, table := range t[bank] {
			if found, want := len(dv[bank][branch]), len(table.values); found != want {
				return fmt.Errorf("sparsemeta: node gradients: bank %d, branch %d: found %d "+
					"nodes, want %d", bank, branch, found, want)
			}
		}
	}
	return nil
}

// A branch of at least sampleLeast elements is sampled in runs of sampleRun elements.
const (
	sampleRun   = 64
	sampleLeast = 1 << 14
)

// Do processes one branch of one bank.
func (j *scatterJob) Do(_ *Exec, i int) {
	bank, branch := i/len(j.s.branches), i%len(j.s.branches)
	table, dv := j.tables[bank][branch], j.dv[bank][branch]
	xs, g := j.s.Branch(j.s.X[bank], branch), j.s.Branch(j.g, branch)
	if j.every <= 1 || len(xs) < sampleLeast {
		scatter(table, xs, g, j.out, dv)
		return
	}
	from := int(j.s.Step % uint64(j.every))
	for lo := from * sampleRun; lo < len(xs); lo += j.every * sampleRun {
		hi := min(lo+sampleRun, len(xs))
		scatter(table, xs[lo:hi], g[lo:hi], j.out*float64(j.every), dv)
	}
}

// scatter divides the product G out of each written element between two nodes: the nodes of the
// piece that contains x.
func scatter(table *Table, xs, g []float32, out float64, dv []float64) {
	for e, x := range xs {
		if x != x {
			continue // the element was never written
		}
		node, w := table.Locate(x)
		d := float64(g[e]) * out
		dv[node] += float64(d * (1 - w))
		dv[node+1] += float64(d * w)
	}
}
