package main

import "math/rand/v2"

// examCount is the number of images of each label in an exam.
const examCount = 20

// A score is the result of a stream. All are shares from 0 to 1.
type score struct {
	Accuracy      float64 // accuracy of the predictions: mean over tasks of each task's mean
	Perseveration float64 // moved images that were predicted as their old label
	// The accuracy on unseen images of the kept labels, at the end of the task before and at the
	// end of the task.
	Before, After float64
}

// Interference is the error on the kept labels after the second of two subsequent tasks.
func (s score) Interference() float64 { return 1 - s.After }

// A share counts successes.
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

// measure plays a stream and returns its score. Equal seeds give equal rounds.
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
