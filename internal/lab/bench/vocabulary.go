package bench

import (
	"math"

	"github.com/lmserve/lmserve/txl"
)

// part is the work of a cluster of the vocabulary in a segment.
type part struct {
	txl.Cluster
	inputs  float64 // rows whose input token is in the cluster
	targets float64 // rows that need the logits of the cluster
	columns int     // number of logits: the cluster's tokens and, in the head, one for each tail
}

// parts returns the work of each cluster of the vocabulary. All rows need the logits of the head,
// the first cluster. Only rows with a target in a tail need the tail's logits. Inputs and targets
// come from the same text.
func (s segment) parts() []part {
	clusters, rows := txl.NewLayout(s.Config).Clusters(), float64(s.rows*s.batch)
	parts := make([]part, len(clusters))
	for i, c := range clusters {
		share := 1.0
		if s.shares != nil {
			share = s.shares[i]
		}
		parts[i] = part{Cluster: c, inputs: share * rows, targets: share * rows, columns: c.Tokens}
	}
	parts[0].targets, parts[0].columns = rows, parts[0].Tokens+len(parts)-1
	return parts
}

// projection returns the operations of a projection of `rows` rows between the widths of the model
// and the cluster.
func (s segment) projection(p part, rows float64) float64 {
	return rows * product(1, s.DModel, p.Width)
}

// vocabularyForward counts the operations of the matrix products in the input and the softmax. A
// cluster of V' tokens with embeddings of width E, n' inputs and n targets needs
//
//	input, if there are projections     2 n' D E
//	hidden states to width E            2 n D E
//	logits                              2 n V' E
func (s segment) vocabularyForward() (flops float64) {
	for _, p := range s.parts() {
		if p.Input != "" {
			flops += s.projection(p, p.inputs) + s.projection(p, p.targets)
		}
		flops += p.targets * product(1, p.columns, p.Width)
	}
	return flops
}

// tailReads returns the expected number of bytes that one pass over a segment reads from the tails'
// tables. A tail is read if a target of the segment is in the tail. A tail has many tokens and few
// such targets, so reading takes longer than multiplying.
func (s segment) tailReads() (bytes float64) {
	rows := float64(s.rows * s.batch)
	for _, p := range s.parts()[1:] {
		read := 1 - math.Pow(1-p.targets/rows, rows)
		bytes += read * 4 * float64(p.Tokens*p.Width)
	}
	return bytes
}

// inputWanted reports whether any weight of the input embedding needs a gradient.
func (s segment) inputWanted(want wanted) bool {
	for _, p := range s.parts() {
		if want(p.Embedding) || p.Input != "" && want(p.Input) {
			return true
		}
	}
	return false
}

// vocabularyBackward counts the backward operations of the input and the softmax. The parameter
// `below` is true if the hidden states need a gradient.
func (s segment) vocabularyBackward(want wanted, below bool) (flops float64) {
	for i, p := range s.parts() {
		narrow := below // whether the projected hidden states need a gradient
		if p.Output != "" {
			if want(p.Output) {
				narrow = true
				flops += s.projection(p, p.targets)
			}
			if below {
				flops += s.projection(p, p.targets)
			}
			if want(p.Input) {
				flops += s.projection(p, p.inputs)
			}
			if want(p.Embedding) {
				flops += s.projection(p, p.inputs)
			}
		}
		if narrow {
			flops += p.targets * product(1, p.columns, p.Width)
		}
		if want(p.Table) {
			flops += p.targets * product(1, p.Tokens, p.Width)
		}
		if i == 0 && want(txl.TailWeights) {
			flops += p.targets * product(1, p.columns-p.Tokens, p.Width)
		}
	}
	return flops
}
