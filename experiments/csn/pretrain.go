package main

import (
	"math"
	"math/rand/v2"

	"github.com/lmserve/lmserve/experiments/tape"
)

// pretrain learns to predict a word from the words around it. It returns the embeddings of words e,
// [vocabulary, width], and the factors a for each position in the window, [places, width]. It also
// learns output embeddings v, which it does not return. The score of a word w in a window of words
// x is
//
//	score(w) = v_w · sum_j a_j * e_(x_j)
//
// Training distinguishes the missing word from random words, which are drawn by their frequency to
// the power .75 (Mikolov et al., 2013). The identifiers unknown and padding also get embeddings.
func pretrain(c *corpus, width, epochs int, seed uint64) (embeddings, places *tape.Var) {
	const negatives, rate = 5, .05
	r := rand.New(rand.NewPCG(seed, 12))
	e, v := tape.New(c.Vocabulary, width), tape.New(c.Vocabulary, width)
	a := tape.New(2*reach+1, width)
	for i := range e.Value {
		e.Value[i] = (r.Float64() - .5) * 2 / math.Sqrt(float64(width))
	}
	for i := range a.Value {
		a.Value[i] = .5
	}
	noise := frequencies(c)
	sum, back := make([]float64, width), make([]float64, width)
	for epoch := range epochs {
		for n, sentence := range c.Sentences {
			progress := (float64(epoch) + float64(n)/float64(len(c.Sentences))) / float64(epochs)
			step := rate * (1 - .95*progress)
			for at, w := range sentence {
				if w < firstWord {
					continue
				}
				x := cut(sentence, at)
				clear(sum)
				clear(back)
				for j, id := range x {
					for d, p := range a.Row(j) {
						sum[d] += p * e.Row(id)[d]
					}
				}
				for i := range 1 + negatives {
					id, want := w, 1.
					if i > 0 {
						id, want = noise[r.IntN(len(noise))], 0
					}
					score := 0.
					for d, s := range sum {
						score += s * v.Row(id)[d]
					}
					g := step * (want - 1/(1+math.Exp(-score)))
					for d, s := range sum {
						back[d] += g * v.Row(id)[d]
						v.Row(id)[d] += g * s
					}
				}
				for j, id := range x {
					for d, b := range back {
						p, q := &a.Row(j)[d], &e.Row(id)[d]
						*p, *q = *p+.1*b**q, *q+b**p
					}
				}
			}
		}
	}
	return e, a
}

// frequencies returns a table for drawing random words. A word with count n has n^.75 entries in
// the table, rounded up.
func frequencies(c *corpus) (table []int) {
	counts := make([]int, c.Vocabulary)
	for _, s := range c.Sentences {
		for _, w := range s {
			counts[w]++
		}
	}
	for w, n := range counts[firstWord:] {
		for range int(math.Ceil(math.Pow(float64(n), .75))) {
			table = append(table, firstWord+w)
		}
	}
	return table
}
