package session

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/txl"
)

// plan describes the work of a generation: n texts for each prompt, and how to sample them.
type plan struct {
	prompts   [][]byte
	n         int
	maxTokens int          // limit on the sampled tokens of a text; may be 0
	sampling  txl.Sampling // without the seed
	// seed is the seed of the first text of each prompt; see drafts. If it is nil, it is random.
	seed     *uint64
	stops    []string
	suffix   []byte // text that follows each sampled text
	echo     bool   // each text begins with its prompt
	logProbs bool   // pieces include log-probabilities
	top      int    // number of likeliest tokens to report per token
	static   bool   // sample from the static model
}

// draft is a text that is being sampled.
type draft struct {
	index     int // index of the text among all texts of the plan
	sampling  txl.Sampling
	maxTokens int
	cut       cutter
	tokens    int    // number of sampled tokens
	reason    string // why the text has ended; "" if it has not

	// If the best of several drafts will be chosen, kept and enough are set. The field kept
	// collects the pieces, which are not emitted yet. The function enough reports whether the draft
	// may end.
	kept   *Piece
	enough func(text []byte) bool
}

// add appends a later piece of the same text.
func (p *Piece) add(next Piece) {
	p.Text = append(p.Text, next.Text...)
	p.LogProbs, p.Top = append(p.LogProbs, next.LogProbs...), append(p.Top, next.Top...)
	p.FinishReason, p.Tokens = next.FinishReason, next.Tokens
}

// drafts returns empty drafts for the texts of one prompt. The seed of the i-th text is the first
// seed plus i. So a text does not depend on other prompts or on their order.
func (p *plan) drafts(prompt int, words bool) []*draft {
	drafts := make([]*draft, p.n)
	first := seedOr(p.seed)
	for i := range drafts {
		sampling := p.sampling
		sampling.Seed = (first + uint64(i)) & SeedMax
		if words {
			sampling.TokenSize = wordSize
		}
		drafts[i] = &draft{
			index:     prompt*p.n + i,
			sampling:  sampling,
			maxTokens: p.maxTokens,
			cut: cutter{
				stops: p.stops, logProbs: p.logProbs, top: p.top > 0, words: words && p.logProbs,
			},
		}
	}
	return drafts
}

// candidates returns the n likeliest tokens of a distribution over the vocabulary, the likeliest
// first. Equally likely tokens are ordered by id. It returns nil if n is 0.
func candidates(logProbs []float32, n int) []Candidate {
	if n == 0 {
		return nil
	}
	best := make([]Candidate, 0, n+1)
	for id, logProb := range logProbs {
		c := Candidate{ID: int32(id), LogProb: float64(logProb)}
		if !finite(c.LogProb) || len(best) == n && c.LogProb <= best[n-1].LogProb {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, c, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), cmp.Compare(a.ID, b.ID))
		})
		best = slices.Insert(best, at, c)
		best = best[:min(len(best), n)]
	}
	return best
}
