package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

// A method predicts and learns the rounds of a stream of tasks.
type method interface {
	// task is called when a new task begins. Only the offline baseline uses this information.
	task()
	// learn predicts the labels of a round, and then learns the true labels.
	learn(r round) ([]int, error)
	predict(x Maps) []int
	close() error
}

// A tuner is a baseline that fine-tunes all weights by gradient descent after every round.
type tuner struct {
	net    *network
	solver tape.Solver
	moving bool
	start  *network // if not nil, every task begins with a copy of this network and a new solver
	rate   float64
}

func newTuner(from *network, rate float64, moving, offline bool) *tuner {
	t := &tuner{net: from.copy(), solver: &tape.Adam{Rate: rate}, moving: moving, rate: rate}
	if offline {
		t.start = from
	}
	return t
}

func (t *tuner) task() {
	if t.start != nil {
		t.net, t.solver = t.start.copy(), &tape.Adam{Rate: t.rate}
	}
}

func (t *tuner) learn(r round) ([]int, error) {
	predicted := roundGradient(t.net, r, t.moving)
	t.solver.Step(t.net.params())
	return predicted, nil
}

func (t *tuner) predict(x Maps) []int { return t.net.predict(x, t.moving) }

func (t *tuner) close() error { return nil }

// roundGradient adds the gradient of a round's loss to the gradients of the network's parameters.
// It returns the labels that the network predicts for the round.
func roundGradient(n *network, r round, moving bool) []int {
	if moving {
		predicted := n.predict(r.x, true)
		n.gradient(r.x, r.labels)
		return predicted
	}
	return n.gradient(r.x, r.labels)
}

// trainP and testP are the probabilities, in training and in tests, that an update writes a fast
// weight (table 3 of the paper on Sparse-MetaNet). The paper omits the size and the learning rate
// of the meta-learners, so both are our choice.
const (
	trainP = 0.3
	testP  = 0.5
)

func paper(out float32, metaRate float64) metanet.Settings {
	return metanet.Settings{K: 3, Gamma: 0.99, Beta1: 0.5, Beta2: 0.5, P: trainP, Out: out,
		MetaRate: metaRate, Init: sparsemeta.InitHe()}
}

// A meta is Sparse-MetaNet (Algorithm 1 of its paper), with fast weights for the 12 convolutions.
type meta struct {
	net    *network
	fast   *metanet.Net
	solver tape.Solver // nil in dev and test streams: only fast weights change there
	moving bool
}

func newMeta(
	net *network, s metanet.Settings, rate float64, moving bool, seed uint64,
) (*meta, error) {
	fast, err := metanet.New(net.convs, s, seed)
	return &meta{net, fast, &tape.Adam{Rate: rate}, moving}, err
}

// fork returns a copy for a development or test stream, with fast weights of zero.
func (m *meta) fork(seed uint64) (*meta, error) {
	net := m.net.copy()
	fast, err := m.fast.Fork(net.convs, seed)
	return &meta{net: net, fast: fast, moving: m.moving}, err
}

func (m *meta) task() {}

func (m *meta) learn(r round) ([]int, error) {
	if m.solver != nil {
		return m.net.gradient(r.x, r.labels), m.fast.Step(m.solver, m.net.others())
	}
	predicted := roundGradient(m.net, r, m.moving)
	m.fast.Adapt(testP)
	tape.ClearGradients(m.net.others())
	return predicted, nil
}

func (m *meta) predict(x Maps) []int { return m.net.predict(x, m.moving) }

func (m *meta) close() error { return m.fast.Close() }

// A pretrainer trains a network on all training classes at once.
type pretrainer struct {
	net     *network
	solver  tape.Solver
	classes []int
	random  *rand.Rand
}

func newPretrainer(narrow int, classes []int, rate float64, r *rand.Rand) *pretrainer {
	return &pretrainer{newNetwork(narrow, len(classes), r), &tape.Adam{Rate: rate}, classes, r}
}

func (p *pretrainer) step(s *set) {
	images, labels := make([][]byte, batchSize), make([]int, batchSize)
	for i := range images {
		labels[i] = p.random.IntN(len(p.classes))
		images[i] = s.stream[p.classes[labels[i]]][p.random.IntN(streamCount)]
	}
	p.net.gradient(s.batch(images), labels)
	p.solver.Step(p.net.params())
}

func (p *pretrainer) network() *network {
	n := p.net.copy()
	n.newHead(labelCount, n.head.Cols, rand.New(rand.NewPCG(5, 5)))
	return n
}
