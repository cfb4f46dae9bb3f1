package main

import "math/rand/v2"

// examCount is the number of test images for each label.
const examCount = 20

// A score is the result of a method on a stream of tasks. All fields are fractions from 0 to 1.
type score struct {
	Accuracy float64 // accuracy of the predictions, averaged over tasks
	// fraction of the relabeled images that were predicted as their old label
	Perseveration float64
	// Before and After are accuracies on test images of the labels that keep their class. Before is
	// measured at the end of the previous task, After at the end of the task itself.
	Before, After float64
}

// Interference returns the error rate at the end of a task on the labels that keep their class from
// the previous task.
func (s score) Interference() float64 { return 1 - s.After }

type share struct{ hits, all float64 }

func (s *share) add(hit bool) {
	if s.all++; hit {
		s.hits++
	}
}

func (s share) value() float64 {
	if s.all == 0 {
		return 0
	}
	return s.hits / s.all
}

// measure runs a method on a stream of tasks and returns the score. Equal seeds give equal rounds.
func measure(m method, s *set, stream []task, seed uint64) (score, error) {
	r := rand.New(rand.NewPCG(seed, 3))
	var sum float64
	var moved, before, after share
	for n := range stream {
		t := &stream[n]
		m.task()
		var right share
		err := t.play(s, r, func(now round) error {
			predicted, err := m.learn(now)
			for i, p := range predicted {
				label := now.labels[i]
				right.add(p == label)
				if t.old[label] >= 0 {
					moved.add(p == t.old[label])
				}
			}
			return err
		})
		if err != nil {
			return score{}, err
		}
		sum += right.value()
		end := t.exam(s, examCount)
		for i, p := range m.predict(end.x) {
			label := end.labels[i]
			if t.kept[label] {
				after.add(p == label)
			}
			if n+1 < len(stream) && stream[n+1].kept[label] {
				before.add(p == label)
			}
		}
	}
	return score{sum / float64(len(stream)), moved.value(), before.value(), after.value()}, nil
}
