package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Identifiers below firstWord are not words.
const (
	unknown = iota
	padding
	blank
	firstWord
)

// reach is the number of words in a window on each side of the missing word.
const reach = 6

// A window is a missing word with its neighbors in a sentence, as the identifiers of 2*reach+1
// words.
type window [2*reach + 1]int

// A pool groups windows by missing word: pool[i] has the windows of the i-th word.
type pool [][]window

// A corpus contains sentences, as identifiers of words, and windows whose missing word a model must
// find.
type corpus struct {
	Vocabulary  int
	Sentences   [][]int // training sentences; none contains a test word
	Train, Test pool
}

// rules defines which words can be the missing word of a task.
type rules struct {
	Least, Most int // range of the number of sentences that contain the word
	// Known is a threshold: the vocabulary has the words that occur at least Known times in the
	// training text.
	Known   int
	HeldOut int // largest number of test words
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?;:]+|\n\s*\n`)
	word        = regexp.MustCompile(`\pL+(?:['’]\pL+)*`)
)

// read returns the sentences of all *.txt files in a folder, split into words. Only the first limit
// bytes of each file are read.
func read(dir string, limit int) (sentences [][]string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: found no *.txt file", dir)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, s := range sentenceEnd.Split(string(data[:min(limit, len(data))]), -1) {
			if words := word.FindAllString(s, -1); len(words) >= 5 {
				sentences = append(sentences, words)
			}
		}
	}
	return sentences, nil
}

// build makes a corpus of training and test sentences. It draws test words from the sentences of
// test or, if test is nil, from the sentences of train. Training sentences that contain a test word
// are omitted. Only lower-case words can be missing words, so names of persons and places are
// excluded.
func build(train, test [][]string, set rules, seed uint64) *corpus {
	from := test
	if from == nil {
		from = train
	}
	r := rand.New(rand.NewPCG(seed, 10))
	candidates := set.candidates(from)
	r.Shuffle(len(candidates), func(i, j int) {
		candidates[i], candidates[j] = candidates[j], candidates[i]
	})
	held := map[string]bool{}
	most := len(candidates)
	if test == nil {
		most /= 2
	}
	for _, w := range candidates[:min(set.HeldOut, most)] {
		held[w] = true
	}
	var kept, without [][]string
	for _, s := range train {
		if slices.ContainsFunc(s, func(w string) bool { return held[strings.ToLower(w)] }) {
			without = append(without, s)
		} else {
			kept = append(kept, s)
		}
	}
	if test == nil {
		test = without
	}
	counts := map[string]int{}
	for _, s := range kept {
		for _, w := range s {
			counts[strings.ToLower(w)]++
		}
	}
	var known []string
	for w, n := range counts {
		if n >= set.Known {
			known = append(known, w)
		}
	}
	slices.Sort(known)
	ids := map[string]int{}
	for _, w := range known {
		ids[w] = firstWord + len(ids)
	}
	c := &corpus{Vocabulary: firstWord + len(ids)}
	for _, s := range kept {
		c.Sentences = append(c.Sentences, identify(s, ids))
	}
	asked := map[string]bool{}
	for _, w := range set.candidates(kept) {
		asked[w] = true
	}
	c.Train, c.Test = windows(kept, ids, asked), windows(test, ids, held)
	return c
}

// candidates returns, in alphabetical order, the lower-case words of three or more bytes that occur
// in at least Least and at most Most sentences.
func (set rules) candidates(sentences [][]string) (words []string) {
	counts := map[string]int{}
	for _, s := range sentences {
		seen := map[string]bool{}
		for _, w := range s {
			if !seen[w] && w == strings.ToLower(w) && len(w) > 2 {
				seen[w] = true
				counts[w]++
			}
		}
	}
	for w, n := range counts {
		if n >= set.Least && n <= set.Most {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return words
}

func identify(sentence []string, ids map[string]int) (out []int) {
	for _, w := range sentence {
		out = append(out, ids[strings.ToLower(w)]) // 0 means an unknown word
	}
	return out
}

// windows returns the windows of the given words, grouped by word in alphabetical order. A sentence
// gives at most one window for each word.
func windows(sentences [][]string, ids map[string]int, of map[string]bool) pool {
	found := map[string][]window{}
	for _, s := range sentences {
		numbers := identify(s, ids)
		seen := map[string]bool{}
		for at, w := range s {
			if of[w] && !seen[w] {
				seen[w] = true
				found[w] = append(found[w], cut(numbers, at))
			}
		}
	}
	var words []string
	for w := range found {
		words = append(words, w)
	}
	slices.Sort(words)
	var p pool
	for _, w := range words {
		p = append(p, found[w])
	}
	return p
}

func cut(sentence []int, at int) (w window) {
	for i := range w {
		switch j := at + i - reach; {
		case i == reach:
			w[i] = blank
		case j < 0 || j >= len(sentence):
			w[i] = padding
		default:
			w[i] = sentence[j]
		}
	}
	return w
}

// A task has support windows, with labels for their missing words. A model must find the label of
// each query's missing word.
type task struct {
	Ways             int
	Support, Queries []window
	Label, Answer    []int // labels: Label for Support, Answer for Queries
}

func (p pool) draw(ways, shots, queries int, r *rand.Rand) task {
	k := task{Ways: ways}
	used := map[int]bool{}
	for label := 0; label < ways; {
		w := r.IntN(len(p))
		if used[w] || len(p[w]) < shots+queries {
			continue
		}
		used[w] = true
		for i, at := range r.Perm(len(p[w]))[:shots+queries] {
			if i < shots {
				k.Support, k.Label = append(k.Support, p[w][at]), append(k.Label, label)
			} else {
				k.Queries, k.Answer = append(k.Queries, p[w][at]), append(k.Answer, label)
			}
		}
		label++
	}
	return k
}
