package main

import (
	"math/rand/v2"
	"slices"
)

// A task has 5 labels, of which some continue from the task before. The paper's text keeps 2
// classes with their labels and gives 1 class another label. The code in its appendix D has these
// numbers exchanged. We follow the text.
const (
	labelCount = 5
	keptCount  = 2 // classes with the label of the task before, for the interference
	movedCount = 1 // classes with another label than before, for the perseveration
	batchSize  = 32
)

// A task is a classification with 5 labels for a number of rounds.
type task struct {
	classes [labelCount]int  // the class of each label
	old     [labelCount]int  // label of a moved class in the task before; else -1
	kept    [labelCount]bool // labels whose class is that of the task before
	rounds  int
}

// tasks returns count tasks of lo to hi rounds.
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

// follow chooses the classes of a task after another.
func (t *task) follow(before *task, classes []int, r *rand.Rand) {
	labels := r.Perm(labelCount)
	for _, l := range labels[:keptCount] {
		t.classes[l], t.kept[l] = before.classes[l], true
	}
	// A moved class had the label free[i], and gets free[i+1].
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

// A round is a batch of a task, with the labels of its images.
type round struct {
	x      Maps
	labels []int
}

// play calls f for every round of the task. No image occurs twice.
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

// exam returns images that no round has, count of each label.
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
