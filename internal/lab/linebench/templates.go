package main

import (
	"math"
	"strings"
	"unicode"
)

// templates counts the templates of a log's lines, as Drain finds them (P. He et al., Drain: An
// Online Log Parsing Approach with Fixed Depth Tree, ICWS 2017): lines of the same number of words
// that begin with the same word are one template if at least half of their words agree. Words with
// a digit are variables from the start, as are those in which lines of a template differ.
type templates struct {
	groups map[group][]*template
	lines  float64
}

type group struct {
	words int
	first string
}

type template struct {
	words []string
	count float64
}

const (
	variable = "<*>"
	// alike is the share of words that must agree with a template's.
	alike = .5
)

// surprise counts the line, and returns how rare its template has been so far: -log2 of its share
// of the lines.
func (t *templates) surprise(text string) float64 {
	words := mask(text)
	key := group{words: len(words)}
	if len(words) > 0 {
		key.first = words[0]
	}
	var best *template
	most := alike * float64(len(words))
	for _, candidate := range t.groups[key] {
		if n := candidate.agree(words); n >= most {
			best, most = candidate, n
		}
	}
	if best == nil {
		best = &template{words: words}
		t.groups[key] = append(t.groups[key], best)
	}
	for i, w := range words {
		if best.words[i] != w {
			best.words[i] = variable
		}
	}
	best.count++
	t.lines++
	return -math.Log2(best.count / t.lines)
}

func (t *template) agree(words []string) (n float64) {
	for i, w := range words {
		if t.words[i] == w {
			n++
		}
	}
	return n
}

// mask returns the words of a line, those with digits as variables.
func mask(text string) []string {
	words := strings.Fields(text)
	for i, w := range words {
		if strings.IndexFunc(w, unicode.IsDigit) >= 0 {
			words[i] = variable
		}
	}
	return words
}

// vocabulary counts in how many of a log's lines each word stands, words with digits being one.
type vocabulary struct {
	lines float64
	count map[string]float64
}

// surprise returns how rare the line's rarest word has been so far, as -log2 of the share of lines
// that have it, and counts the line.
func (v *vocabulary) surprise(text string) (most float64) {
	v.lines++
	seen := map[string]bool{}
	for _, w := range mask(text) {
		if !seen[w] {
			seen[w] = true
			v.count[w]++
			most = max(most, -math.Log2(v.count[w]/v.lines))
		}
	}
	return most
}
