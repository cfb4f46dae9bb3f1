package session

import (
	"cmp"
	"slices"

	"github.com/lmserve/lmserve/txl"
)

// plan is the work of a generation: n texts after each prompt.
type plan struct {
	prompts   [][]byte
	n         int
	maxTokens int          // tokens sampled for a text; may be 0
	sampling  txl.Sampling // without the seed
	// seed of the first text after a prompt; see drafts. It is random if nil.
	seed     *uint64
	stops    []string
	suffix   []byte // text after each sampled text
	echo     bool   // a text begins with its prompt
	logProbs bool   // pieces have their tokens' log-probabilities
	top      int    // number of likeliest tokens to report for each token
	static   bool   // texts are sampled from the static model
}

// draft is one text while it grows.
type draft struct {
	index     int // index of the text in the plan
	sampling  txl.Sampling
	maxTokens int
	cut       cutter
	tokens    int    // sampled
	reason    string // why the text ended, "" before that

	// kept and enough are set if the draft is one to choose from. kept has its pieces so far, which
	// are not emitted yet. enough reports whether the draft ends there.
	kept   *Piece
	enough func(text []byte) bool
}

// add appends a piece of the same text.
func (p *Piece) add(next Piece) {
	p.Text = append(p.Text, next.Text...)
	p.LogProbs, p.Top = append(p.LogProbs, next.LogProbs...), append(p.Top, next.Top...)
	p.FinishReason, p.Tokens = next.FinishReason, next.Tokens
}

// drafts makes the texts after one of the prompts, of words or of bytes. The seed of the i-th text
// is the seed of the first text plus i. So a text depends neither on other prompts nor on their
// order.
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

// candidates returns the n likeliest tokens of a distribution [V], the likeliest first. Of two
// equally likely tokens the lower id comes first. It returns nil if n is 0.
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
