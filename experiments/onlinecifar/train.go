package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

type options struct {
	narrow   int // divisor of the paper's numbers of filters
	rounds   int
	every    int // interval, in rounds, at which the dev stream is measured for early stopping
	devTasks int
	tasks    int
	moving   bool // whether predictions normalize with the moving averages
	rate     float64
	out      float64
	metaRate float64
	log      func(format string, args ...any)
}

// A length is the range from which a task's number of rounds is drawn.
type length struct{ Lo, Hi int }

func (l length) String() string { return fmt.Sprintf("%d-%d", l.Lo, l.Hi) }

// trainLength is the range of rounds of a training or dev task. testLengths has the range for each
// test stream.
var (
	trainLength = length{15, 30}
	testLengths = []length{{1, 15}, {20, 35}, {40, 55}, {60, 75}}
)

// tuneRates are the learning rates to try for a baseline at test time. The dev stream chooses the
// best. Early stopping uses the first.
var tuneRates = []float64{1e-2, 3e-3, 3e-2}

// A row is the result of one method with one seed.
type row struct {
	Method string
	Seed   uint64
	Best   int // number of training rounds, chosen by early stopping
	Rate   float64
	Dev    float64
	Scores []score
}

// These constants name the methods, in the order of the table's rows.
const (
	nameMeta    = "Sparse-MetaNet"
	nameOnline  = "online fine-tuning"
	namePre     = "online fine-tuning, pretrained"
	nameOffline = "fine-tuning, pretrained, reset"
)

type trainer struct {
	options
	set  *set
	seed uint64
	dev  []task
	test [][]task

	trainClasses []int
}

func newTrainer(o options, s *set, seed uint64) *trainer {
	train, dev, test := split(1)
	t := &trainer{options: o, set: s, seed: seed, trainClasses: train}
	r := t.random(1)
	t.dev = tasks(dev, o.devTasks, trainLength.Lo, trainLength.Hi, r)
	for _, l := range testLengths {
		t.test = append(t.test, tasks(test, o.tasks, l.Lo, l.Hi, r))
	}
	return t
}

func (t *trainer) random(use uint64) *rand.Rand { return rand.New(rand.NewPCG(t.seed, use)) }

// A candidate builds a method from a saved state of training, for one dev or test stream.
type candidate func(rate float64) (method, error)

type selection struct {
	row
	best candidate
}

func (t *trainer) consider(s *selection, c candidate, rate float64, round int) error {
	start := time.Now()
	m, err := c(rate)
	if err != nil {
		return err
	}
	defer m.close()
	got, err := measure(m, t.set, t.dev, t.seed)
	if err != nil {
		return err
	}
	if s.best == nil || got.Accuracy > s.Dev {
		s.best, s.Dev, s.Best, s.Rate = c, got.Accuracy, round, rate
	}
	t.log("seed %d, %s: round %d, rate %.4f: dev accuracy %.3f, perseveration %.3f (%.0f s)",
		t.seed, s.Method, round, rate, got.Accuracy, got.Perseveration, time.Since(start).Seconds())
	return nil
}

// finish chooses the learning rate of a baseline and measures the method on the test streams.
func (t *trainer) finish(s *selection) (row, error) {
	if s.Method != nameMeta {
		for best, rates := s.best, tuneRates[1:]; len(rates) > 0; rates = rates[1:] {
			if err := t.consider(s, best, rates[0], s.Best); err != nil {
				return row{}, err
			}
		}
	}
	for i, stream := range t.test {
		m, err := s.best(s.Rate)
		if err != nil {
			return row{}, err
		}
		got, err := measure(m, t.set, stream, t.seed)
		m.close()
		if err != nil {
			return row{}, err
		}
		s.Scores = append(s.Scores, got)
		t.log("seed %d, %s: stream of %v rounds: %.3f", t.seed, s.Method, testLengths[i], got)
	}
	return s.row, nil
}

func (t *trainer) selection(name string) *selection {
	return &selection{row: row{Method: name, Seed: t.seed}}
}

// stream calls learn for every round of the training stream, and calls stop after every t.every
// rounds.
func (t *trainer) stream(learn func(round) error, stop func(round int) error) error {
	r := t.random(2)
	all := tasks(t.trainClasses, t.rounds/trainLength.Lo+1, trainLength.Lo, trainLength.Hi, r)
	n := 0
	for i := range all {
		all[i].rounds = min(all[i].rounds, t.rounds-n)
		err := all[i].play(t.set, r, func(now round) error {
			if err := learn(now); err != nil {
				return err
			}
			if n++; n%t.every == 0 {
				return stop(n)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// online trains the baseline that is fine-tuned online without pretraining.
func (t *trainer) online() ([]row, error) {
	s := t.selection(nameOnline)
	m := newTuner(newNetwork(t.narrow, labelCount, t.random(4)), t.rate, false, false)
	err := t.stream(func(now round) error { _, err := m.learn(now); return err },
		func(n int) error {
			net := m.net.copy()
			return t.consider(s, func(rate float64) (method, error) {
				return newTuner(net, rate, t.moving, false), nil
			}, tuneRates[0], n)
		})
	if err != nil {
		return nil, err
	}
	r, err := t.finish(s)
	return []row{r}, err
}

func (t *trainer) pretrained() ([]row, error) {
	all := []*selection{t.selection(namePre), t.selection(nameOffline)}
	p := newPretrainer(t.narrow, t.trainClasses, t.rate, t.random(5))
	for n := 1; n <= t.rounds; n++ {
		p.step(t.set)
		if n%t.every != 0 {
			continue
		}
		net := p.network()
		for _, s := range all {
			err := t.consider(s, func(rate float64) (method, error) {
				return newTuner(net, rate, t.moving, s.Method == nameOffline), nil
			}, tuneRates[0], n)
			if err != nil {
				return nil, err
			}
		}
	}
	var rows []row
	for _, s := range all {
		r, err := t.finish(s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (t *trainer) meta() (rows []row, err error) {
	s := t.selection(nameMeta)
	m, err := newMeta(newNetwork(t.narrow, labelCount, t.random(4)),
		paper(float32(t.out), t.metaRate), t.rate, t.moving, t.seed)
	if err != nil {
		return nil, err
	}
	defer m.close()
	var right share
	err = t.stream(
		func(now round) error {
			predicted, err := m.learn(now)
			for i, p := range predicted {
				right.add(p == now.labels[i])
			}
			return err
		},
		func(n int) error {
			t.log("seed %d, %s: round %d: training accuracy %.3f", t.seed, s.Method, n,
				right.value())
			right = share{}
			frozen, err := m.fork(t.seed)
			if err != nil {
				return err
			}
			if err := frozen.close(); err != nil { // a closed Net can still be forked
				return err
			}
			return t.consider(s, func(float64) (method, error) { return frozen.fork(t.seed) }, 0, n)
		})
	if err != nil {
		return nil, err
	}
	r, err := t.finish(s)
	return []row{r}, err
}
