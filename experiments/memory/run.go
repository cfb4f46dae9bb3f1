package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/experiments/tape"
)

const windows = 40

// factors are the lengths of test sequences, in multiples of the longest training sequence.
var factors = []int{1, 2, 4}

type method struct {
	name  string
	rates map[string]float64
	make  func(k task, rate float64, seed uint64) (learner, error)
}

// methods returns all methods. The LSTM has more units than the NTM, so that both have about the
// same number of parameters. Parameter p is the probability that a pair writes a fast weight.
func methods(p float64) []method {
	return []method{
		recurrentMethod("LSTM", 76, 0.002, func(s sizes, r *rand.Rand) network {
			return newLSTM(s, r)
		}),
		recurrentMethod("NTM", 64, 0.005, func(s sizes, r *rand.Rand) network {
			return newNTM(s, r)
		}),
		recurrentMethod("DNC", 64, 0.002, func(s sizes, r *rand.Rand) network {
			return newDNC(s, r)
		}),
		recurrentMethod("MANN", 64, 0.002, func(s sizes, r *rand.Rand) network {
			return newMANN(s, r)
		}),
		{"fast", rates(0.005), func(k task, rate float64, seed uint64) (learner, error) {
			return newFast(k, p, rate, seed)
		}},
	}
}

// recurrentMethod returns a method whose controller has the given number of units. Parameter recall
// is the learning rate for the task named recall.
func recurrentMethod(name string, units int, recall float64,
	f func(sizes, *rand.Rand) network) method {
	return method{name, rates(recall), func(_ task, rate float64, seed uint64) (learner, error) {
		s := sizes{inputs: bits + channels, outputs: bits, units: units, slots: 36, width: 12}
		return recurrent{f(s, rand.New(rand.NewPCG(seed, 1))), &tape.Adam{Rate: rate}}, nil
	}}
}

// rates returns the learning rates of a method. For NTM, DNC and fast, the rates were chosen by
// experiments with seed 100. The rates of LSTM and MANN were not optimized.
func rates(recall float64) map[string]float64 {
	return map[string]float64{"copy": 0.005, "recall": recall}
}

type job struct {
	task   task
	method method
	seed   uint64
	tests  int
}

type result struct {
	curve   []float64 // mean bits per sequence in each window of the training
	lengths []score
	params  int
}

// train trains a learner with random sequences and then tests it. The test sequences depend on the
// task and the seed, not on the method.
func train(j job) (result, error) {
	l, err := j.method.make(j.task, j.method.rates[j.task.name], j.seed)
	if err != nil {
		return result{}, err
	}
	r := result{params: l.size()}
	random := rand.New(rand.NewPCG(j.seed, 2))
	for w := range windows {
		var sum score
		n := (w+1)*j.task.sequences/windows - w*j.task.sequences/windows
		for range n {
			s, err := l.learn(j.task.sample(random))
			if err != nil {
				return r, errors.Join(err, l.close())
			}
			sum.add(s)
		}
		r.curve = append(r.curve, sum.Bits/float64(n))
	}
	random = rand.New(rand.NewPCG(j.seed, 3))
	for _, f := range factors {
		var sum score
		for range j.tests {
			sum.add(l.answer(j.task.draw(random, f*j.task.max, j.task.vectors)))
		}
		r.lengths = append(r.lengths, sum)
	}
	return r, l.close()
}

func trainAll(jobs []job, progress io.Writer) ([]result, error) {
	results := make([]result, len(jobs))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	var line sync.Mutex
	for i, j := range jobs {
		all.Go(func() (err error) {
			if results[i], err = train(j); err != nil {
				return err
			}
			line.Lock()
			defer line.Unlock()
			_, err = fmt.Fprintf(progress, "%s, %s, seed %d: %.2f bits a sequence, wrong bits %s\n",
				j.task.name, j.method.name, j.seed, results[i].curve[windows-1],
				percents(results[i].lengths))
			return err
		})
	}
	return results, all.Wait()
}

func percents(all []score) (text string) {
	for _, s := range all {
		text += fmt.Sprintf("%.1f%% ", s.wrong())
	}
	return text
}

func (a score) wrong() float64 { return 100 * float64(a.Wrong) / float64(a.All) }
