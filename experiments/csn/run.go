package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

const (
	ways    = 5
	shots   = 3 // largest number of examples per word; a training task has 1 to shots
	queries = 2
)

type learner interface {
	learn(k task, s tape.Solver) (logits *tape.Var, err error)
	predict(k task) (logits *tape.Var)
}

// A model is a network whose logits depend only on the task, not on earlier tasks.
type model interface {
	params() []*tape.Var
	logits(t *tape.Tape, k task) *tape.Var
}

// episodic trains a model with one optimizer step per task.
type episodic struct{ model }

func (e episodic) learn(k task, s tape.Solver) (*tape.Var, error) {
	var t tape.Tape
	logits := e.logits(&t, k)
	t.Backward(t.Affine(t.CrossEntropy(logits, k.Answer, nil), 1/float64(len(k.Answer)), 0))
	params := e.params()
	tape.Clip(params, 1)
	s.Step(params)
	return logits, nil
}

func (e episodic) predict(k task) *tape.Var {
	var t tape.Tape
	return e.logits(&t, k)
}

type method struct {
	Name string
	Bag  bool // true for a bag of embeddings as encoder, false for an LSTM
	make func(e *encoder, seed uint64, r *rand.Rand) (learner, error)
}

func shiftedMethod(name string, bag, direct, recurrent bool) method {
	return method{name, bag, func(e *encoder, _ uint64, r *rand.Rand) (learner, error) {
		return episodic{newShifted(e, ways, direct, recurrent, r)}, nil
	}}
}

func matchingMethod(name string, bag bool) method {
	return method{name, bag, func(e *encoder, _ uint64, r *rand.Rand) (learner, error) {
		return episodic{newMatching(e, r)}, nil
	}}
}

// methods lists the compared methods: first the methods with a bag of embeddings as encoder, then
// the methods with an LSTM.
var methods = []method{
	{"static", true, func(e *encoder, _ uint64, r *rand.Rand) (learner, error) {
		return episodic{newStatic(e, ways, r)}, nil
	}},
	matchingMethod("matching", true),
	{"sparse", true, func(e *encoder, seed uint64, r *rand.Rand) (learner, error) {
		return newSparse(e, ways, seed, r)
	}},
	{"slots", true, func(e *encoder, _ uint64, r *rand.Rand) (learner, error) {
		return episodic{newSlotted(e, ways, r)}, nil
	}},
	shiftedMethod("adaFFN-gradient", true, false, false),
	shiftedMethod("adaFFN-direct", true, true, false),
	matchingMethod("LSTM-matching", false),
	shiftedMethod("adaLSTM-gradient", false, false, true),
	shiftedMethod("adaLSTM-direct", false, true, true),
}

type budget struct {
	Steps, Tests int
	Rate         float64
	Epochs, Size int // epochs for training the embeddings, and their width
}

// A result has the accuracy for each number of shots, and the mean training loss in each tenth of
// the training.
type result struct {
	Accuracy [shots]float64
	Losses   []float64
}

// run trains a method and tests it. The test tasks depend only on the seed.
func run(m method, c *corpus, embeddings, places *tape.Var, b budget, seed uint64) (result, error) {
	r := rand.New(rand.NewPCG(seed, 20))
	l, err := m.make(newEncoder(embeddings, places, m.Bag, units, r), seed, r)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	if s, ok := l.(*sparse); ok {
		defer s.fast.Close()
	}
	var out result
	solver, loss := &tape.Adam{}, 0.
	for step := range b.Steps {
		solver.Rate = b.Rate * (1 - .9*float64(step)/float64(b.Steps))
		k := c.Train.draw(ways, 1+r.IntN(shots), queries, r)
		logits, err := l.learn(k, solver)
		if err != nil {
			return out, fmt.Errorf("%s: %w", m.Name, err)
		}
		var t tape.Tape
		loss += t.CrossEntropy(logits, k.Answer, nil).Value[0] / float64(len(k.Answer))
		if tenth := max(b.Steps/10, 1); step%tenth == tenth-1 {
			out.Losses, loss = append(out.Losses, loss/float64(tenth)), 0
		}
	}
	for k := range out.Accuracy {
		r := rand.New(rand.NewPCG(seed, 30+uint64(k)))
		right, asked := 0, 0
		for range b.Tests {
			t := c.Test.draw(ways, k+1, 1, r)
			right += correct(l.predict(t), t.Answer)
			asked += len(t.Answer)
		}
		out.Accuracy[k] = float64(right) / float64(asked)
	}
	return out, nil
}

func correct(logits *tape.Var, answers []int) (n int) {
	for i, a := range answers {
		best := 0
		for j, x := range logits.Row(i) {
			if x > logits.Row(i)[best] {
				best = j
			}
		}
		if best == a {
			n++
		}
	}
	return n
}
