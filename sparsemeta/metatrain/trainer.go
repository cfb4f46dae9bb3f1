package metatrain

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lmserve/lmserve/sparsemeta"
)

// Options configure a Trainer. A field of zero selects the default.
type Options struct {
	Beta1 float64 // Adam's decay of the mean; default 0.9
	Beta2 float64 // Adam's decay of the variance; default 0.99
	Eps   float64 // Adam's epsilon; default 1e-8
	// Workers is the number of goroutines that compute networks. The default is one for each
	// processor. Workers does not affect the results.
	Workers int
}

func (o Options) withDefaults() Options {
	if o.Beta1 == 0 {
		o.Beta1 = 0.9
	}
	if o.Beta2 == 0 {
		o.Beta2 = 0.99
	}
	if o.Eps == 0 {
		o.Eps = 1e-8
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

// Validate returns an error for an option that is out of range.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case !(o.Beta1 > 0 && o.Beta1 < 1):
		return fmt.Errorf("metatrain: options: Beta1: found %v, want a number between 0 and 1",
			o.Beta1)
	case !(o.Beta2 > 0 && o.Beta2 < 1):
		return fmt.Errorf("metatrain: options: Beta2: found %v, want a number between 0 and 1",
			o.Beta2)
	case !(o.Eps > 0 && o.Eps <= math.MaxFloat64):
		return fmt.Errorf("metatrain: options: Eps: found %v, want a finite number above 0", o.Eps)
	case o.Workers < 0:
		return fmt.Errorf("metatrain: options: Workers: found %d, want 0 or more", o.Workers)
	}
	return nil
}

// Trainer trains the networks of a learner and updates the learner's tables. Only one goroutine may
// use a Trainer at a time.
type Trainer struct {
	learner *sparsemeta.Learner
	tables  sparsemeta.Tables
	solver  *solver
	workers []worker
}

type worker struct {
	forward  *forward
	backward *backward
}

// New returns a trainer for l and compiles the tables of l. The trainer's steps change l.Phi.
func New(l *sparsemeta.Learner, o Options) (*Trainer, error) {
	if err := errors.Join(o.Validate(), l.Validate()); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	networks := len(l.Phi) * len(l.Branches)
	t := &Trainer{
		learner: l,
		tables:  make(sparsemeta.Tables, len(l.Phi)),
		solver:  newSolver(networks*sparsemeta.NetworkSize, o),
		workers: make([]worker, min(o.Workers, networks)),
	}
	for bank := range t.tables {
		for range l.Branches {
			t.tables[bank] = append(t.tables[bank], new(sparsemeta.Table))
		}
	}
	for i := range t.workers {
		var err error
		if t.workers[i].forward, err = newForward(); err != nil {
			return nil, err
		}
		if t.workers[i].backward, err = newBackward(); err != nil {
			return nil, err
		}
	}
	if err := t.each(t.compile); err != nil {
		return nil, err
	}
	return t, nil
}

// Close releases the gorgonia machines.
func (t *Trainer) Close() error {
	var err error
	for _, w := range t.workers {
		err = errors.Join(err, w.forward.vm.Close(), w.backward.vm.Close())
	}
	return err
}

// Tables returns the learner's tables. Step rewrites the tables in place, so no State.Update may
// run during a Step. Gradients at nodes are valid only until the next Step, because Step moves the
// nodes.
func (t *Trainer) Tables() sparsemeta.Tables { return t.tables }

// Step makes one step of Adam with learning rate lr on the weights of all networks, and updates the
// tables. dv is the gradient of the loss with respect to g's values at the nodes, summed over any
// number of chunks. State.NodeGradient computes dv, including the factor Out. If the gradient is
// not finite, Step returns an error and changes nothing.
func (t *Trainer) Step(dv sparsemeta.NodeGradients, lr float64) error {
	if !(lr >= 0 && lr <= math.MaxFloat64) {
		return fmt.Errorf(
			"metatrain: step: learning rate: found %v, want a finite number, 0 or more", lr)
	}
	if err := t.gradient(dv); err != nil {
		return err
	}
	phi := t.solver.weights
	for i := range t.networks() {
		for k, v := range t.network(i) {
			phi[i*sparsemeta.NetworkSize+k] = float64(v)
		}
	}
	if err := t.solver.step(lr); err != nil {
		return fmt.Errorf("metatrain: step: %w", err)
	}
	for i := range t.networks() {
		n := t.network(i)
		for k := range n {
			n[k] = float32(phi[i*sparsemeta.NetworkSize+k])
		}
	}
	return t.each(t.compile)
}

// Gradient returns the gradient of the loss with respect to the weights of each meta-learner,
// indexed [bank][branch]. Parameter dv has the same meaning as in Step. Gradient changes no
// weights.
func (t *Trainer) Gradient(dv sparsemeta.NodeGradients) ([][]sparsemeta.Network, error) {
	if err := t.gradient(dv); err != nil {
		return nil, err
	}
	out := make([][]sparsemeta.Network, len(t.tables))
	grad := t.solver.gradient
	for bank := range out {
		out[bank] = make([]sparsemeta.Network, len(t.tables[bank]))
		for branch := range out[bank] {
			for k := range out[bank][branch] {
				out[bank][branch][k] = float32(grad[k])
			}
			grad = grad[sparsemeta.NetworkSize:]
		}
	}
	return out, nil
}

// gradient sets solver.gradient to the gradient of the loss with respect to the weights of all
// networks.
func (t *Trainer) gradient(dv sparsemeta.NodeGradients) error {
	if err := t.tables.CheckGradients(dv); err != nil {
		return err
	}
	clear(t.solver.gradient)
	return t.each(func(w *worker, i int) error {
		bank, branch := i/len(t.learner.Branches), i%len(t.learner.Branches)
		grad := t.solver.gradient[i*sparsemeta.NetworkSize:][:sparsemeta.NetworkSize]
		if err := w.backward.gradient(t.network(i), t.tables[bank][branch], dv[bank][branch],
			grad); err != nil {
			return err
		}
		for _, part := range sparsemeta.Parts() {
			for k, g := range grad[part.Lo:part.Hi] {
				if math.IsNaN(g) || math.IsInf(g, 0) {
					return fmt.Errorf("gradient of %s[%d]: found %v, want a finite number",
						part.Name, k, g)
				}
			}
		}
		return nil
	})
}

func (t *Trainer) compile(w *worker, i int) error {
	n := t.network(i)
	if err := n.Validate(); err != nil {
		return err
	}
	table := t.tables[i/len(t.learner.Branches)][i%len(t.learner.Branches)]
	table.Place(n)
	if err := w.forward.evaluate(n, table); err != nil {
		return err
	}
	table.Fill()
	return nil
}

func (t *Trainer) networks() int { return len(t.learner.Phi) * len(t.learner.Branches) }

// network returns network i. Networks are ordered by bank, then by branch.
func (t *Trainer) network(i int) *sparsemeta.Network {
	return &t.learner.Phi[i/len(t.learner.Branches)][i%len(t.learner.Branches)]
}

// each calls f for every network, in parallel on all workers. If calls fail, it returns the error
// of the network with the lowest index, with the network's name.
func (t *Trainer) each(f func(w *worker, i int) error) error {
	failures := make([]error, t.networks())
	var next atomic.Int64
	var wait sync.WaitGroup
	for k := range t.workers {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(failures); i = int(next.Add(1)) - 1 {
				failures[i] = f(&t.workers[k], i)
			}
		})
	}
	wait.Wait()
	for i, err := range failures {
		if err != nil {
			branches := t.learner.Branches
			return fmt.Errorf("metatrain: bank %d: %s: %w", i/len(branches),
				branches[i%len(branches)].Name, err)
		}
	}
	return nil
}
