package bench

import (
	"math"
	"sort"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// language is an endless pseudo-random text of letters or words, the same in every run. The word
// with id i has a probability proportional to (i+1)^-zipfExponent (Zipf's law).
type language struct {
	tokenizer tokenizer.Tokenizer
	upTo      []float64 // cumulative probability of the ids up to each id; nil: letters
}

// zipfExponent gives rare words a realistic frequency. With a vocabulary of 267,735 words, 89 % of
// the text's words are among the 20,000 most frequent.
const zipfExponent = 1.1

func newLanguage(t tokenizer.Tokenizer) language {
	l := language{tokenizer: t}
	if _, words := t.(*tokenizer.Words); !words {
		return l
	}
	l.upTo = make([]float64, t.Vocab())
	sum := 0.0
	for i := range l.upTo {
		sum += math.Pow(float64(i+1), -zipfExponent)
		l.upTo[i] = sum
	}
	for i := range l.upTo {
		l.upTo[i] /= sum
	}
	return l
}

func (l language) token(i uint64) int32 {
	bits := kernel.Bits(1, i)
	if l.upTo == nil {
		return int32('a' + bits%26)
	}
	at := float64(bits>>11) / (1 << 53)
	return int32(sort.Search(len(l.upTo)-1, func(id int) bool { return at < l.upTo[id] }))
}

// shares returns the fraction of the text's tokens in each cluster, or nil for letters.
func (l language) shares(clusters []txl.Cluster) (shares []float64) {
	if l.upTo == nil {
		return nil
	}
	end, before := 0, 0.0
	for _, c := range clusters {
		end += c.Tokens
		shares = append(shares, l.upTo[end-1]-before)
		before = l.upTo[end-1]
	}
	return shares
}

// text returns the bytes of the first n tokens of the language. The last of them is replaced by the
// tokenizer's start token, so that no word is incomplete.
func (l language) text(n int) []byte { return l.textFrom(0, n) }

// textFrom is like text, but starts at the token with index `begin`.
func (l language) textFrom(begin, n int) (text []byte) {
	last := l.tokenizer.Start()
	for i := range n {
		id := l.token(uint64(begin + i))
		if i == n-1 {
			id = l.tokenizer.Start()
		}
		text = l.tokenizer.Spell(text, last, id)
		last = id
	}
	return text
}

func (l language) unit() string {
	if l.upTo == nil {
		return bytes
	}
	return tokens
}
