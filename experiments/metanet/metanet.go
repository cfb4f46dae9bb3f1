// Package metanet adds fast weights to the matrices of a small network. It runs Algorithm 1 of
// Sparse Meta Networks (Munkhdalai, 2020) with the public packages sparsemeta and metatrain.
//
// A network computes with W + M, the sum of slow and fast weights. A Net stores this sum in the
// Value of the network's variables. Backward computes the gradient with respect to W + M, which is
// also the gradient with respect to W and to M.
package metanet

import (
	"errors"
	"fmt"

	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/sparsemeta/metatrain"
)

// Settings are the parameters of Algorithm 1 of Sparse Meta Networks (Munkhdalai, 2020).
type Settings struct {
	K     int     // length of the truncated graph: K-1 fast updates, then one slow update
	Gamma float32 // decay of the gradient average
	// Beta1 is the weight of a gradient in the gradient average. Beta2 is the additional weight of
	// the newest gradient in an update.
	Beta1, Beta2 float32
	P            float64 // probability that an update writes a fast weight
	Out          float32 // factor on the meta-learners' outputs
	MetaRate     float64 // Adam's learning rate of the meta-weights
	Init         sparsemeta.Init
}

// A Net has fast weights for some matrices of a network.
type Net struct {
	settings Settings
	matrices []*tape.Var
	slow     [][]float64
	learner  *sparsemeta.Learner
	state    *sparsemeta.State
	trainer  *metatrain.Trainer
	exec     *sparsemeta.Exec
	grad     []float32
	fast     []float32
	nothing  [][]uint8
	nodes    sparsemeta.NodeGradients
	sums     [][]float64
	step     int
}

// New returns a Net with random meta-learners and with fast weights of zero for the matrices. The
// caller closes the Net.
func New(matrices []*tape.Var, s Settings, seed uint64) (*Net, error) {
	return build(matrices, s, seed, nil)
}

// Fork returns a Net for a copy of the network, given the copy's matrices. Fork sets the values of
// these matrices to n's slow weights. The new Net has n's slow weights and meta-learners, and fast
// weights of zero. Afterwards the two Nets are independent.
func (n *Net) Fork(matrices []*tape.Var, seed uint64) (*Net, error) {
	for i, v := range matrices {
		copy(v.Value, n.slow[i])
	}
	return build(matrices, n.settings, seed, n.learner.Phi)
}

// build returns a Net with the meta-learners phi, or with random meta-learners if phi is nil.
func build(
	matrices []*tape.Var, s Settings, seed uint64, phi [][]sparsemeta.Network,
) (*Net, error) {
	n := &Net{settings: s, matrices: matrices, exec: sparsemeta.NewExec(1)}
	n.learner = &sparsemeta.Learner{Settings: sparsemeta.Settings{
		Gammas: []float32{s.Gamma}, Beta1: s.Beta1, Beta2: s.Beta2, P: s.P, Out: s.Out,
	}}
	for i, v := range matrices {
		branch := sparsemeta.Branch{Name: fmt.Sprint(i), Size: len(v.Value)}
		n.learner.Branches = append(n.learner.Branches, branch)
		n.slow = append(n.slow, append([]float64(nil), v.Value...))
		n.sums = append(n.sums, make([]float64, len(v.Value)))
	}
	n.learner.Init(s.Init, seed)
	for bank := range phi {
		copy(n.learner.Phi[bank], phi[bank])
	}
	if err := n.learner.Validate(); err != nil {
		return nil, err
	}
	trainer, err := metatrain.New(n.learner, metatrain.Options{Workers: 1, Beta2: 0.999})
	if err != nil {
		return nil, err
	}
	n.trainer = trainer
	n.state = sparsemeta.NewState(n.learner.Branches, 1, seed, sparsemeta.Float32)
	n.state.Trace()
	size := n.learner.Size()
	n.grad, n.fast = make([]float32, size), make([]float32, size)
	n.nothing = [][]uint8{make([]uint8, size)}
	return n, nil
}

// Close stops the goroutines of the Net.
func (n *Net) Close() error {
	n.exec.Close()
	return n.trainer.Close()
}

// Step uses the gradients of the matrices and of the other parameters, which have no fast weights.
// Every K-th step updates slow weights and meta-weights; all other steps update fast weights. Step
// then sets all gradients to zero.
func (n *Net) Step(solver tape.Solver, others []*tape.Var) error {
	n.step++
	n.collect()
	set := n.learner.Settings
	if n.step%n.settings.K != 0 {
		n.adapt(set)
		tape.ClearGradients(others)
		return nil
	}
	n.nodes = n.trainer.Tables().Gradients(n.nodes)
	n.state.NodeGradient(n.exec, n.trainer.Tables(), set.Out, n.grad, 1, n.nodes)
	n.state.UpdateMasked(n.exec, n.trainer.Tables(), set, nil, n.grad, n.fast, n.nothing)
	return n.learn(solver, others)
}

// Accumulate adds the gradients of the matrices to sums, and then sets the gradients to zero. The
// next Learn updates slow weights and meta-weights by these sums. The fast weights do not change.
// Callers use Accumulate and Learn instead of Step. They call Adapt after each Backward whose
// gradients should write fast weights.
func (n *Net) Accumulate() {
	if n.nodes == nil {
		n.nodes = n.trainer.Tables().Gradients(nil)
	}
	n.collect()
	n.state.NodeGradient(n.exec, n.trainer.Tables(), n.settings.Out, n.grad, 1, n.nodes)
	for i, v := range n.matrices {
		for j, g := range v.Grad {
			n.sums[i][j] += g
		}
	}
	tape.ClearGradients(n.matrices)
}

// Learn updates slow weights, other parameters and meta-weights by the gradients that Accumulate
// has added since the last Learn. It then sets all gradients to zero and clears the history of the
// fast weights. Therefore call Reset or Adapt before the next Accumulate.
func (n *Net) Learn(solver tape.Solver, others []*tape.Var) error {
	if n.nodes == nil {
		return errors.New("metanet: Learn was called before Accumulate")
	}
	for i, v := range n.matrices {
		copy(v.Grad, n.sums[i])
	}
	if err := n.learn(solver, others); err != nil {
		return err
	}
	n.nodes = nil
	for _, sum := range n.sums {
		clear(sum)
	}
	return nil
}

// learn updates the meta-weights by n.nodes, and the slow weights and other parameters by their
// gradients. It then begins a new truncated graph.
func (n *Net) learn(solver tape.Solver, others []*tape.Var) error {
	if err := n.trainer.Step(n.nodes, n.settings.MetaRate); err != nil {
		return err
	}
	n.state.Trace()
	for i, v := range n.matrices {
		copy(v.Value, n.slow[i])
	}
	solver.Step(append(others[:len(others):len(others)], n.matrices...))
	for i, v := range n.matrices {
		copy(n.slow[i], v.Value)
	}
	n.publish()
	return nil
}

// Adapt updates only the fast weights. Parameter p is the probability that the update writes an
// element. Adapt then sets the gradients of the matrices to zero.
func (n *Net) Adapt(p float64) {
	n.collect()
	set := n.learner.Settings
	set.P = p
	n.adapt(set)
}

func (n *Net) adapt(set sparsemeta.Settings) {
	n.state.Update(n.exec, n.trainer.Tables(), set, nil, n.grad, n.fast)
	tape.ClearGradients(n.matrices)
	n.publish()
}

// Reset sets the fast weights and the gradient average to zero.
func (n *Net) Reset() {
	n.state.Reset()
	n.state.Sum(n.exec.Vectors, n.fast)
	n.publish()
}

func (n *Net) collect() {
	at := 0
	for _, v := range n.matrices {
		for i, g := range v.Grad {
			n.grad[at+i] = float32(g)
		}
		at += len(v.Grad)
	}
}

// publish sets the network's matrices to W + M, the sum of slow and fast weights.
func (n *Net) publish() {
	at := 0
	for i, v := range n.matrices {
		for j, w := range n.slow[i] {
			v.Value[j] = w + float64(n.fast[at+j])
		}
		at += len(v.Value)
	}
}
