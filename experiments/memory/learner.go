package main

import (
	"math"

	"github.com/lmserve/lmserve/experiments/tape"
)

type sizes struct {
	inputs, outputs int
	units           int
	slots, width    int
}

type learner interface {
	// learn returns the score of the answer, and then makes one step of the optimizer.
	learn(s sequence) (score, error)
	// answer returns the score without learning.
	answer(s sequence) score
	// size returns the number of trained parameters.
	size() int
	close() error
}

type score struct {
	Bits  float64 // -log2 of the probability of the targets
	Wrong int     // number of bits whose correct value has a probability below 1/2
	All   int
}

func (a *score) add(b score) {
	a.Bits += b.Bits
	a.Wrong += b.Wrong
	a.All += b.All
}

// judge returns the score of an answer, given its logits and its loss in nats.
func judge(loss *tape.Var, logits *tape.Var, targets []float64) score {
	s := score{Bits: loss.Value[0] / math.Ln2, All: len(targets)}
	for i, x := range logits.Value {
		if (x > 0) != (targets[i] > 0.5) {
			s.Wrong++
		}
	}
	return s
}

func flat(rows [][]float64) (all []float64) {
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

func count(params []*tape.Var) (n int) {
	for _, p := range params {
		n += len(p.Value)
	}
	return n
}

const clipAt = 10 // largest norm of the gradient of one sequence

// A network reads one row per step. The method begin clears the network's memory.
type network interface {
	params() []*tape.Var
	begin()
	step(t *tape.Tape, x *tape.Var) *tape.Var
}

// recurrent is a learner that trains its network by backpropagation through whole sequences.
type recurrent struct {
	network
	solver tape.Solver
}

func (l recurrent) run(t *tape.Tape, s sequence) (*tape.Var, score) {
	l.begin()
	var answers []*tape.Var
	for i, x := range s.inputs {
		logits := l.step(t, tape.Const(1, len(x), x))
		if i >= len(s.inputs)-len(s.targets) {
			answers = append(answers, logits)
		}
	}
	logits, targets := t.Concat(answers...), flat(s.targets)
	loss := t.BinaryCrossEntropy(logits, targets)
	return loss, judge(loss, logits, targets)
}

func (l recurrent) answer(s sequence) score {
	var t tape.Tape
	_, result := l.run(&t, s)
	return result
}

func (l recurrent) learn(s sequence) (score, error) {
	var t tape.Tape
	loss, result := l.run(&t, s)
	t.Backward(loss)
	tape.Clip(l.params(), clipAt)
	l.solver.Step(l.params())
	return result, nil
}

func (l recurrent) size() int { return count(l.params()) }

func (l recurrent) close() error { return nil }
