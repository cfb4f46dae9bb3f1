package main

import (
	"math/rand/v2"
	"slices"
)

const (
	bits     = 6  // number of bits of a vector
	channels = 2  // flags beside the bits: the end of a list or an item's start, and a query
	code     = 64 // length of the code of a position
	places   = 64 // number of positions
)

// A sequence is one example of a task, in the two forms that the models read.
type sequence struct {
	inputs  [][]float64 // for recurrent models: one row of bits and flags for each step
	targets [][]float64 // bits of the answer, one row for each of the last steps

	// Fast weights store pairs, and answer each query with as many bits as a value has. The
	// answers to all queries together are the targets.
	keys, values, queries [][]float64
}

// A task draws sequences. The length of a sequence is its number of items.
type task struct {
	name      string
	min, max  int // lengths of training
	vectors   int // number of vectors of an item
	sequences int // number of training sequences
	draw      func(r *rand.Rand, length, vectors int) sequence
}

// tasks returns copy and associative recall (Graves, Wayne and Danihelka, 2014, sections 4.1 and
// 4.3) with shorter sequences. The items of recall have the given number of vectors.
func tasks(vectors int) []task {
	return []task{
		{"copy", 1, 8, 1, 8000, drawCopy},
		{"recall", 2, 6, vectors, 24000, drawRecall},
	}
}

// sample draws a sequence of training.
func (k task) sample(r *rand.Rand) sequence {
	return k.draw(r, k.min+r.IntN(k.max-k.min+1), k.vectors)
}

// drawCopy returns a list of vectors, its end, and the list again as the answer. The key of a
// vector is the code of its position. Positions count from a random one, so that short lists visit
// them all.
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

// drawRecall returns a list of different items, then one of them; the answer is that item's
// successor. A flag marks the first vector of each item, and another flag the first vector of the
// query. The paper has extra steps for these marks. The key of an item is the item before it, as
// signs.
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

// position returns random signs that depend on i alone.
func position(i int) []float64 {
	r := rand.New(rand.NewPCG(uint64(i), 45))
	x := make([]float64, code)
	for j := range x {
		x[j] = float64(r.IntN(2))
	}
	return signs(x)
}

// signs maps bits to -1 and 1.
func signs(v []float64) []float64 {
	x := make([]float64, len(v))
	for i := range v {
		x[i] = 2*v[i] - 1
	}
	return x
}
