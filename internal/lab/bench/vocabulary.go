package bench

import (
	"math"

	"github.com/lmserve/lmserve/txl"
)

// part is a cluster's work in a segment.
type part struct {
	txl.Cluster
	inputs  float64 // rows with inputs in the cluster
	targets float64 // rows that need the cluster's logits
	columns int     // logits: the cluster's tokens and, in the head, one column for each tail
}

// parts returns the work of each cluster of the vocabulary. All rows need the head's logits. Only
// rows with targets in a tail need that tail's logits. Inputs and targets come from the same
// text.
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

// projection returns the operations of a projection of a number of rows.
func (s segment) projection(p part, rows float64) float64 {
	return rows * product(1, s.DModel, p.Width)
}

// vocabularyForward counts the operations of the products of input and softmax. For a cluster of V'
// tokens with embeddings of width E, n' inputs and n targets, these are
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

// tailReads returns the bytes of the tails' tables that one pass over a segment must read. A tail
// has far more tokens than a segment has rows that need them, so reading takes longer than
// multiplying. A tail is read if the segment has a target in it.
func (s segment) tailReads() (bytes float64) {
	rows := float64(s.rows * s.batch)
	for _, p := range s.parts()[1:] {
		read := 1 - math.Pow(1-p.targets/rows, rows)
		bytes += read * 4 * float64(p.Tokens*p.Width)
	}
	return bytes
}

// inputWanted reports whether the gradient of a weight of the input is wanted.
func (s segment) inputWanted(want wanted) bool {
	for _, p := range s.parts() {
		if want(p.Embedding) || p.Input != "" && want(p.Input) {
			return true
		}
	}
	return false
}

// vocabularyBackward counts the operations of backward's products of input and softmax. The
// parameter `below` is true if the gradient of the hidden states is needed.
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
