package main

import (
	"math/rand/v2"
	"slices"
)

// A task has 5 labels, some of which continue from the previous task. According to the text of the
// paper, 2 classes keep their labels and 1 class gets a different label. The code in the paper's
// appendix D exchanges these two numbers. This program follows the text.
const (
	labelCount = 5
	keptCount  = 2 // number of classes that keep their label; used to measure interference
	movedCount = 1 // number of classes that change their label; used to measure perseveration
	batchSize  = 32
)

// A task is a classification problem with 5 labels that lasts for a number of rounds.
type task struct {
	classes [labelCount]int
	// for each label: the previous label of its class, or -1 if the class did not change its label
	old    [labelCount]int
	kept   [labelCount]bool
	rounds int
}

func tasks(classes []int, count, lo, hi int, r *rand.Rand) []task {
	var all []task
	for range count {
		t := task{rounds: lo + r.IntN(hi-lo+1), old: [labelCount]int{-1, -1, -1, -1, -1}}
		if len(all) == 0 {
			for i, k := range r.Perm(len(classes))[:labelCount] {
				t.classes[i] = classes[k]
			}
		} else {
			t.follow(&all[len(all)-1], classes, r)
		}
		all = append(all, t)
	}
	return all
}

func (t *task) follow(before *task, classes []int, r *rand.Rand) {
	labels := r.Perm(labelCount)
	for _, l := range labels[:keptCount] {
		t.classes[l], t.kept[l] = before.classes[l], true
	}
	// Each class that changes its label moves from label free[i] to label free[i+1].
	free := labels[keptCount:]
	for i, l := range free[:movedCount] {
		to := free[i+1]
		t.classes[to], t.old[to] = before.classes[l], l
	}
	var fresh []int
	for _, k := range r.Perm(len(classes)) {
		if !slices.Contains(before.classes[:], classes[k]) {
			fresh = append(fresh, classes[k])
		}
	}
	for _, l := range free {
		if t.old[l] < 0 {
			t.classes[l], fresh = fresh[0], fresh[1:]
		}
	}
}

type round struct {
	x      Maps
	labels []int
}

// play calls f for every round of the task. No image occurs in two rounds.
func (t *task) play(s *set, r *rand.Rand, f func(round) error) error {
	order := r.Perm(labelCount * streamCount)
	for n := range t.rounds {
		var images [][]byte
		var labels []int
		for _, k := range order[n*batchSize:][:batchSize] {
			label := k % labelCount
			images = append(images, s.stream[t.classes[label]][k/labelCount])
			labels = append(labels, label)
		}
		if err := f(round{s.batch(images), labels}); err != nil {
			return err
		}
	}
	return nil
}

// exam returns the given number of test images for each label. No round contains these images.
func (t *task) exam(s *set, count int) round {
	var images [][]byte
	var labels []int
	for label, class := range t.classes {
		for _, image := range s.held[class][:count] {
			images = append(images, image)
			labels = append(labels, label)
		}
	}
	return round{s.batch(images), labels}
}
