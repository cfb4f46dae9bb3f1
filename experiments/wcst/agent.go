package main

import (
	"math/rand/v2"
	"slices"

	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
	"github.com/lmserve/lmserve/sparsemeta"
)

const (
	entropyShare = 0.01 // weight of the policy's entropy in the loss
	valueShare   = 0.5  // weight of the squared error of the value estimates in the loss
)

// An agent is an advantage actor-critic (Mnih et al., 2016). It has two ReLU layers, a policy head
// and a value head. Cards do not depend on earlier choices, so the return of a choice is its
// reward.
type agent struct {
	matrices []*tape.Var
	biases   []*tape.Var
	solver   tape.Solver
	fast     *metanet.Net   // fast weights of Sparse-MetaNet; nil for other methods
	slots    *metanet.Slots // memory slots of the original MetaNet; nil for other methods
	random   *rand.Rand

	// dead is true if no unit of the second layer was active for any card of the last episode. Then
	// no gradient reaches the layers, and the agent cannot learn.
	dead bool
}

func newAgent(hidden int, solver tape.Solver, seed uint64) *agent {
	a := &agent{solver: solver, random: rand.New(rand.NewPCG(seed, 2))}
	shapes := [][2]int{{inputs, hidden}, {hidden, hidden}, {hidden, codes}, {hidden, 1}}
	for _, shape := range shapes {
		a.matrices = append(a.matrices, tape.Glorot(shape[0], shape[1], a.random))
		a.biases = append(a.biases, tape.New(1, shape[1]))
	}
	return a
}

// paper returns the settings of the paper's table 3. The paper gives neither the initial size nor
// the learning rate of the meta-learners. We chose both.
func paper(metaRate float64) metanet.Settings {
	return metanet.Settings{K: 3, Gamma: 0.9, Beta1: 0.5, Beta2: 0.5, P: 0.3, Out: 1,
		MetaRate: metaRate, Init: sparsemeta.InitSmall()}
}

// play chooses a category for each card and returns the choices. The agent learns from the rewards:
// 1 for a right choice, else 0.
func (a *agent) play(cards []float64, categories []int) ([]int, error) {
	var t tape.Tape
	x := tape.Const(episode, inputs, cards)
	for i := range 2 {
		x = t.ReLU(t.AddRow(t.MatMul(x, a.matrices[i]), a.biases[i]))
	}
	a.dead = slices.Max(x.Value) == 0
	logits := t.AddRow(t.MatMul(x, a.matrices[2]), a.biases[2])
	if a.slots != nil && a.slots.Len() > 0 {
		read := a.slots.Read(&t, tape.Const(episode, inputs, cards))
		logits = t.Add(logits, read.Product(&t, 0, x))
	}
	values := t.AddRow(t.MatMul(x, a.matrices[3]), a.biases[3])
	policy := t.Softmax(logits)

	choices := make([]int, episode)
	rewards, weights := make([]float64, episode), make([]float64, episode)
	for i := range choices {
		choices[i] = a.draw(policy.Row(i))
		if choices[i] == categories[i] {
			rewards[i] = 1
		}
		weights[i] = (rewards[i] - values.Value[i]) / episode // the advantage gets no gradient
	}
	actor := t.CrossEntropy(logits, choices, weights)
	errors := t.Sub(values, tape.Const(episode, 1, rewards))
	critic := t.Affine(t.Sum(t.Mul(errors, errors)), valueShare/episode, 0)
	negative := t.Sum(t.Mul(policy, t.Log(policy)))
	loss := t.Add(t.Add(actor, critic), t.Affine(negative, entropyShare/episode, 0))
	t.Backward(loss)
	if a.fast != nil {
		return choices, a.fast.Step(a.solver, a.biases)
	}
	params := slices.Concat(a.biases, a.matrices)
	if a.slots != nil {
		a.remember(cards, x, logits)
		params = append(params, a.slots.Meta.Params()...)
	}
	a.solver.Step(params)
	return choices, nil
}

// remember writes a memory slot for every card, with the card as the key. The slot also stores the
// gradient of the policy's matrix for this card alone.
func (a *agent) remember(cards []float64, x, logits *tape.Var) {
	for i := range episode {
		gradient := make([]float64, codes)
		for j, g := range logits.Grad[i*codes:][:codes] {
			gradient[j] = episode * g // undoes the mean over the episode's cards in the loss
		}
		key := tape.Const(1, inputs, cards[i*inputs:][:inputs])
		a.slots.Write(key, [][]float64{metanet.Outer(x.Row(i), gradient)})
	}
}

func (a *agent) draw(p []float64) int {
	u := a.random.Float64()
	for i, q := range p {
		if u -= q; u < 0 {
			return i
		}
	}
	return len(p) - 1
}
