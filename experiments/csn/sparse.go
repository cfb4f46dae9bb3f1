package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

// sparse is a model whose layers above the encoder have the fast weights of Sparse-MetaNet. The
// fast weights are zero at the beginning of every task. The gradient of the support set then
// updates them several times.
type sparse struct {
	*static
	fast *metanet.Net
	set  metanet.Settings
}

// sparseSettings are the settings of the Sparse-MetaNet paper for Online Cifar, but with more
// updates per task. Each update writes all fast weights, because a task has only a few updates.
var sparseSettings = metanet.Settings{K: 4, Gamma: 0.9, Beta1: 0.5, Beta2: 0.5, P: 1, Out: 1,
	MetaRate: 1e-3, Init: sparsemeta.InitSmall()}

func newSparse(e *encoder, ways int, seed uint64, r *rand.Rand) (*sparse, error) {
	set := sparseSettings
	m := &sparse{static: newStatic(e, ways, r), set: set}
	var err error
	m.fast, err = metanet.New(m.layers.matrices(), set, seed)
	return m, err
}

// learn adapts to the support set, updates the slow weights by the loss of the queries, and returns
// the logits of the queries.
func (m *sparse) learn(k task, solver tape.Solver) (*tape.Var, error) {
	others := append(m.encoder.params(), m.layers.biases()...)
	for range m.set.K - 1 {
		m.backward(k.Support, k.Label)
		if err := m.fast.Step(solver, others); err != nil {
			return nil, err
		}
	}
	logits := m.backward(k.Queries, k.Answer)
	err := m.fast.Step(solver, others)
	m.fast.Reset()
	return logits, err
}

func (m *sparse) predict(k task) *tape.Var {
	all := append(m.encoder.params(), m.layers...)
	for range m.set.K - 1 {
		m.backward(k.Support, k.Label)
		m.fast.Adapt(m.set.P)
		tape.ClearGradients(all)
	}
	var t tape.Tape
	logits := m.logits(&t, k)
	m.fast.Reset()
	return logits
}

// backward adds the gradients of the mean loss to the gradients of the parameters, and returns the
// logits.
func (m *sparse) backward(windows []window, labels []int) *tape.Var {
	var t tape.Tape
	logits := m.logits(&t, task{Queries: windows})
	t.Backward(t.Affine(t.CrossEntropy(logits, labels, nil), 1/float64(len(labels)), 0))
	return logits
}
