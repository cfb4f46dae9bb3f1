package main

import (
	"math"
	"regexp"
	"strings"
	"unicode"
)

// This file contains simple baseline methods. They rate a line by counts of earlier lines, in
// tables that grow with the log.

type counter struct {
	lines float64
	count map[string]float64
}

// rate returns the rarity of a line's rarest word, and the sum of the rarities of all different
// words. The rarity is -log2 of the share of lines with the word. Then rate counts the line.
func (c *counter) rate(words []string) (most, sum float64) {
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] {
			continue
		}
		seen[w] = true
		rarity := -math.Log2((c.count[w] + .5) / (c.lines + 1))
		most, sum = max(most, rarity), sum+rarity
	}
	for w := range seen {
		c.count[w]++
	}
	c.lines++
	return most, sum
}

const variable = "<*>"

func hasDigit(word string) bool { return strings.IndexFunc(word, unicode.IsDigit) >= 0 }

// spaced splits a text at spaces. Words with a digit are replaced by a common placeholder.
func spaced(text string) []string {
	words := strings.Fields(text)
	for i, w := range words {
		if hasDigit(w) {
			words[i] = variable
		}
	}
	return words
}

var variables = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}` +
	`|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]{16,}\b|[-+]?\d+(?:\.\d+)?`)

// withoutVariables replaces every UUID, address and number of a line by the same placeholder.
func withoutVariables(text string) string { return variables.ReplaceAllString(text, variable) }

// drain finds the template of each line (P. He et al., Drain: An Online Log Parsing Approach with
// Fixed Depth Tree, ICWS 2017). Its tree has depth drainDepth. The number of words and the first
// words of a line select a leaf of the tree. Within a leaf, lines belong to one template if a
// fraction drainAlike of their words agrees.
type drain struct {
	groups map[drainGroup]*drainLeaf
	lines  float64
}

const (
	drainDepth = 4
	drainWords = drainDepth - 2
	drainAlike = .4
)

type drainGroup struct {
	words int
	first [drainWords]string
}

type drainLeaf []*template

type template struct {
	words []string
	count float64
}

// rate returns -log2 of the smoothed share of lines with the line's template. Then it counts the
// line.
func (d *drain) rate(text string) float64 {
	t := d.find(strings.Fields(withoutVariables(text)))
	rarity := -math.Log2((t.count + .5) / (d.lines + 1))
	t.count++
	d.lines++
	return rarity
}

// find returns the template of a line. Words of the template that differ from the line become
// variables. If no template is similar enough, find makes a new template.
func (d *drain) find(words []string) *template {
	group := drainGroup{words: len(words)}
	for i, w := range words[:min(drainWords, len(words))] {
		group.first[i] = w
		if hasDigit(w) || strings.Contains(w, variable) {
			group.first[i] = variable
		}
	}
	leaf := d.groups[group]
	if leaf == nil {
		leaf = new(drainLeaf)
		d.groups[group] = leaf
	}
	var best *template
	most, variables := -1, 0
	for _, t := range *leaf {
		alike, v := t.agree(words)
		if alike > most || alike == most && v > variables {
			best, most, variables = t, alike, v
		}
	}
	if best == nil || float64(most) < drainAlike*float64(len(words)) {
		best = &template{words: words}
		*leaf = append(*leaf, best)
	}
	for i, w := range words {
		if best.words[i] != w {
			best.words[i] = variable
		}
	}
	return best
}

// agree counts the positions where a line has the template's word, and the template's variables.
func (t *template) agree(words []string) (alike, variables int) {
	for i, w := range t.words {
		switch w {
		case variable:
			variables++
		case words[i]:
			alike++
		}
	}
	return alike, variables
}
