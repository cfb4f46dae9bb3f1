package main

import (
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

const fastUnits = 128

// fast is a network with one hidden layer and with fast weights, which are zero at the beginning of
// a sequence. The loss gradient of each key-value pair writes fast weights. Then the loss of the
// answers trains the slow weights and the meta-weights, once per sequence.
type fast struct {
	hidden, out layer
	net         *metanet.Net
	solver      tape.Solver
	p           float64 // probability that a pair writes a fast weight
}

// fastSettings returns settings that give all pairs equal weight. Gamma and Beta1 keep the gradient
// average from decaying. Beta2 is 0, so that the last gradient does not count twice.
func fastSettings(p, rate float64) metanet.Settings {
	return metanet.Settings{Gamma: 1, Beta1: 1, Beta2: 0, P: p, Out: 0.1, MetaRate: rate,
		Init: sparsemeta.InitHe()}
}

func newFast(k task, p, rate float64, seed uint64) (learner, error) {
	in, out := code, bits
	if k.name == "recall" {
		in, out = bits*k.vectors, bits*k.vectors
	}
	return makeFast(in, out, fastSettings(p, rate), rate, seed)
}

func makeFast(in, out int, set metanet.Settings, rate float64, seed uint64) (*fast, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	f := &fast{hidden: newLayer(in, fastUnits, r), out: newLayer(fastUnits, out, r),
		solver: &tape.Adam{Rate: rate}, p: set.P}
	var err error
	f.net, err = metanet.New([]*tape.Var{f.hidden.w, f.out.w}, set, seed)
	return f, err
}

func (f *fast) biases() []*tape.Var { return []*tape.Var{f.hidden.b, f.out.b} }

func (f *fast) loss(t *tape.Tape, keys, values [][]float64) (loss, logits *tape.Var) {
	n := len(keys)
	x := tape.Const(n, len(keys[0]), flat(keys))
	h := t.Tanh(t.AddRow(t.MatMul(x, f.hidden.w), f.hidden.b))
	logits = t.AddRow(t.MatMul(h, f.out.w), f.out.b)
	return t.BinaryCrossEntropy(logits, flat(values)), logits
}

func (f *fast) store(s sequence) {
	f.net.Reset()
	for i := range s.keys {
		var t tape.Tape
		loss, _ := f.loss(&t, s.keys[i:i+1], s.values[i:i+1])
		t.Backward(loss)
		f.net.Adapt(f.p)
		tape.ClearGradients(f.biases())
	}
}

func (f *fast) answer(s sequence) score {
	f.store(s)
	var t tape.Tape
	loss, logits := f.loss(&t, s.queries, s.targets)
	return judge(loss, logits, flat(s.targets))
}

func (f *fast) learn(s sequence) (score, error) {
	f.store(s)
	var t tape.Tape
	loss, logits := f.loss(&t, s.queries, s.targets)
	t.Backward(loss)
	tape.Clip([]*tape.Var{f.hidden.w, f.hidden.b, f.out.w, f.out.b}, clipAt)
	f.net.Accumulate()
	return judge(loss, logits, flat(s.targets)), f.net.Learn(f.solver, f.biases())
}

func (f *fast) size() int {
	return count(f.hidden.params()) + count(f.out.params()) + 2*sparsemeta.NetworkSize
}

func (f *fast) close() error { return f.net.Close() }
