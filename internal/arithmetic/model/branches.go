package model

import (
	"fmt"
	"path"
	"slices"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// charactersMax is the largest vocabulary whose embeddings belong to the sets "paper" and "wide".
// As in the paper, only embeddings of characters have fast weights: a table of words is larger than
// all other branches together. In the model wt103-16l, the gradient averages and fast weights of a
// session, in 16 bits, need this memory per bank:
//
//	"paper", 27.2 M elements              109 MB
//	the table of 267,735 words, 109.8 M   439 MB
//	the softmax's bias                      1 MB
//
// With fast weights for the table, a chunk needs twice the time (docs/adaptation.md). Yet a chunk
// of 50 words uses at most 100 rows of the table. A pattern can still select the table by name.
// With one table per cluster, word_emb.emb_layers.0.weight is the table of the most frequent words.
// A table of words that only the softmax uses belongs to no set except "softmax".
const charactersMax = 1024

// paperBranches returns patterns for the weights of attention and of the first linear map of each
// feed-forward block. For a model of characters it adds the embedding, and the softmax's own table
// if there is one.
func paperBranches(l *txl.Layout) []string {
	patterns := []string{"*.qkv_net.weight", "*.r_net.weight", "*.o_net.weight",
		"*.CoreNet.0.weight"}
	return append(patterns, characterBranches(l)...)
}

// wideBranches returns patterns for the weights of paperBranches, for all other weights of the
// feed-forward blocks, and for the biases of the softmax.
func wideBranches(l *txl.Layout) []string {
	patterns := []string{"*.qkv_net.weight", "*.r_net.weight", "*.o_net.weight", "*.CoreNet.*"}
	return append(append(patterns, characterBranches(l)...), biasBranches(l)...)
}

// softmaxBranches matches all weights that only the softmax uses. These are its biases, the head's
// columns for the clusters, and tables and projections that the embedding does not share. If only
// these weights are branches, the backward pass does not compute the layers.
const softmaxBranches = "crit.*"

// upperBranches returns patterns for the feed-forward blocks in the upper half of the layers,
// rounded up. It adds the weights that only the softmax uses, except tables of words. The backward
// pass then ends in the middle of the network, and no layer recomputes the keys and values of its
// memory. Compared with "wide", the set keeps most of the gain and saves two thirds of the time.
func upperBranches(l *txl.Layout) []string {
	n := 0
	for l.Index(fmt.Sprintf("layers.%d.dec_attn.o_net.weight", n)) >= 0 {
		n++
	}
	patterns := []string{softmaxBranches}
	if !ofCharacters(l) && hasWeight(l, softmaxTables) {
		patterns = biasBranches(l)
		if hasWeight(l, softmaxProjections) {
			patterns = append(patterns, softmaxProjections)
		}
	}
	for i := n / 2; i < n; i++ {
		patterns = append(patterns, fmt.Sprintf("layers.%d.*.CoreNet.*", i))
	}
	return patterns
}

// These patterns match the tables of the embedding, and the tables and projections of the softmax.
const (
	embeddingTables    = "word_emb.emb_layers.*.weight"
	softmaxTables      = "crit.out_layers.*.weight"
	softmaxProjections = "crit.out_projs.*"
)

// characterBranches returns patterns that match the names of the character embeddings and of the
// softmax's tables. It returns no patterns for a model of words.
func characterBranches(l *txl.Layout) []string {
	switch {
	case !ofCharacters(l):
		return nil
	case hasWeight(l, softmaxTables):
		return []string{embeddingTables, softmaxTables}
	}
	return []string{embeddingTables}
}

// ofCharacters reports whether the tokens are characters and not words, by the size of the
// vocabulary.
func ofCharacters(l *txl.Layout) bool {
	tokens := 0
	for _, c := range l.Clusters() {
		tokens += c.Tokens
	}
	return tokens <= charactersMax
}

func hasWeight(l *txl.Layout, pattern string) bool {
	return slices.ContainsFunc(l.Tensors, func(t txl.Tensor) bool {
		ok, err := path.Match(pattern, t.Name)
		return ok && err == nil
	})
}

// biasBranches returns patterns for the softmax's biases. With clusters it adds the head's columns
// for the clusters.
func biasBranches(l *txl.Layout) []string {
	patterns := []string{"crit.out_layers.*.bias"}
	if l.Index(txl.TailWeights) >= 0 {
		patterns = append(patterns, "crit.cluster_*")
	}
	return patterns
}

var branchSets = map[string]func(*txl.Layout) []string{
	"paper": paperBranches, "wide": wideBranches, "upper": upperBranches,
	"softmax": func(*txl.Layout) []string { return []string{softmaxBranches} },
}

// Branches returns the weights that the patterns select as branches, in the order of the layout. A
// pattern is "paper", "wide", "upper", "softmax", or a path.Match pattern over weight names. No
// patterns means "wide".
func Branches(l *txl.Layout, patterns []string) ([]sparsemeta.Branch, error) {
	if len(patterns) == 0 {
		patterns = []string{"wide"}
	}
	var expanded []string
	for _, p := range patterns {
		if set, ok := branchSets[p]; ok {
			expanded = append(expanded, set(l)...)
		} else {
			expanded = append(expanded, p)
		}
	}
	patterns = expanded
	var branches []sparsemeta.Branch
	used := make([]bool, len(patterns))
	for _, t := range l.Tensors {
		matched := false
		for k, p := range patterns {
			ok, err := path.Match(p, t.Name)
			if err != nil {
				return nil, fmt.Errorf("model: branches: pattern %q: %w", p, err)
			}
			matched, used[k] = matched || ok, used[k] || ok
		}
		if matched {
			branches = append(branches, sparsemeta.Branch{Name: t.Name, Size: t.Size})
		}
	}
	for k, p := range patterns {
		if !used[k] {
			return nil, fmt.Errorf("model: branches: %q matches no weight, "+
				"expected paper, wide, upper, softmax, or patterns of weight names", p)
		}
	}
	return branches, nil
}
