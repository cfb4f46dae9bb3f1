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
	maxTokens int
	sampling  txl.Sampling
	// seed is the seed of the first text of each prompt; nil means a random seed. See drafts.
	seed     *uint64
	stops    []string
	suffix   []byte // text that follows each sampled text
	echo     bool
	logProbs bool
	top      int
	static   bool
}

type draft struct {
	index     int
	sampling  txl.Sampling
	maxTokens int
	cut       cutter
	tokens    int
	reason    string // reason for the end of the text; "" if the text has not ended

	// kept and enough are set if only the best of several drafts is returned. The field kept
	// collects the pieces, which are not emitted yet. The function enough reports whether the draft
	// may end.
	kept   *Piece
	enough func(text []byte) bool
}

func (p *Piece) add(next Piece) {
	p.Text = append(p.Text, next.Text...)
	p.LogProbs, p.Top = append(p.LogProbs, next.LogProbs...), append(p.Top, next.Top...)
	p.FinishReason, p.Tokens = next.FinishReason, next.Tokens
}

// drafts returns empty drafts for the texts of one prompt. The i-th text has the first seed plus i.
// So a text does not depend on other prompts or on their order.
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
