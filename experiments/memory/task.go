package main

import (
	"math/rand/v2"
	"slices"
)

const (
	bits     = 6  // number of bits in a vector
	channels = 2  // number of flags after the bits
	code     = 64 // length of the code that represents a position
	places   = 64
)

// A sequence is one example of a task. Recurrent networks read inputs; fast weights read keys,
// values and queries.
type sequence struct {
	inputs  [][]float64 // for recurrent networks: one row of bits and flags per step
	targets [][]float64 // bits of the answer; one row for each of the last steps

	// Fast weights store the pairs of keys and values, and answer each query with one value. The
	// answers to all queries together are the targets.
	keys, values, queries [][]float64
}

// A task draws random sequences. The length of a sequence is its number of items.
type task struct {
	name      string
	min, max  int // range of lengths in training
	vectors   int
	sequences int
	draw      func(r *rand.Rand, length, vectors int) sequence
}

// tasks returns the tasks copy and associative recall (Graves, Wayne and Danihelka, 2014, sections
// 4.1 and 4.3) with shorter sequences. An item of the recall task has the given number of vectors.
func tasks(vectors int) []task {
	return []task{
		{"copy", 1, 8, 1, 8000, drawCopy},
		{"recall", 2, 6, vectors, 24000, drawRecall},
	}
}

func (k task) sample(r *rand.Rand) sequence {
	return k.draw(r, k.min+r.IntN(k.max-k.min+1), k.vectors)
}

// drawCopy returns a list of vectors, an end mark, and the same list as the answer. The key of a
// vector is the code of its position. The first position is random, so that short lists also train
// all positions.
func drawCopy(r *rand.Rand, length, _ int) sequence {
	var s sequence
	start := r.IntN(places - length + 1)
	for i := range length {
		v := vector(r)
		s.inputs = append(s.inputs, row(v, false, false))
		s.targets = append(s.targets, v)
		s.keys = append(s.keys, position(start+i))
	}
	s.inputs = append(s.inputs, row(nil, true, false))
	for range length {
		s.inputs = append(s.inputs, row(nil, false, false))
	}
	s.values, s.queries = s.targets, s.keys
	return s
}

// drawRecall returns a list of different items, and then one of them as the query. The answer is
// the next item in the list. Flags mark the first vector of each item and of the query; the paper
// has extra steps for these marks. The key of an item is the previous item, with values of -1 and
// 1.
func drawRecall(r *rand.Rand, length, vectors int) sequence {
	var items [][]float64
	for len(items) < length {
		var item []float64
		for range vectors {
			item = append(item, vector(r)...)
		}
		same := func(x []float64) bool { return slices.Equal(x, item) }
		if !slices.ContainsFunc(items, same) {
			items = append(items, item)
		}
	}
	var s sequence
	show := func(item []float64, query bool) {
		for i := range vectors {
			first := i == 0
			s.inputs = append(s.inputs, row(item[i*bits:][:bits], first && !query,
				first && query))
		}
	}
	for i, item := range items {
		show(item, false)
		if i+1 < length {
			s.keys, s.values = append(s.keys, signs(item)), append(s.values, items[i+1])
		}
	}
	asked := r.IntN(length - 1)
	show(items[asked], true)
	s.queries = s.keys[asked:][:1]
	for i := range vectors {
		s.inputs = append(s.inputs, row(nil, false, false))
		s.targets = append(s.targets, items[asked+1][i*bits:][:bits])
	}
	return s
}

func vector(r *rand.Rand) []float64 {
	v := make([]float64, bits)
	for i := range v {
		v[i] = float64(r.IntN(2))
	}
	return v
}

func row(v []float64, first, second bool) []float64 {
	x := make([]float64, bits+channels)
	copy(x, v)
	if first {
		x[bits] = 1
	}
	if second {
		x[bits+1] = 1
	}
	return x
}

// position returns the code of position i: random signs that depend only on i.
func position(i int) []float64 {
	r := rand.New(rand.NewPCG(uint64(i), 45))
	x := make([]float64, code)
	for j := range x {
		x[j] = float64(r.IntN(2))
	}
	return signs(x)
}

func signs(v []float64) []float64 {
	x := make([]float64, len(v))
	for i := range v {
		x[i] = 2*v[i] - 1
	}
	return x
}
