package bench

import (
	"math"
	"sort"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// language is an endless constant text of letters or words. The word with id i has a probability
// proportional to (i+1)^-zipfExponent (Zipf's law).
type language struct {
	tokenizer tokenizer.Tokenizer
	upTo      []float64 // cumulative probability up to each id; nil: letters
}

// zipfExponent makes words as rare as in long texts. With a vocabulary of 267,735 words, 89 % of
// the text's words are among the 20,000 most frequent.
const zipfExponent = 1.1

// newLanguage returns a text in the tokens of a model.
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

// token returns token i of the text.
func (l language) token(i uint64) int32 {
	bits := kernel.Bits(1, i)
	if l.upTo == nil {
		return int32('a' + bits%26)
	}
	at := float64(bits>>11) / (1 << 53)
	return int32(sort.Search(len(l.upTo)-1, func(id int) bool { return at < l.upTo[id] }))
}

// shares returns the fractions of the text's tokens in each of the clusters; nil for letters.
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

// text returns n tokens from the beginning of the text. Token n is replaced by the tokenizer's
// start token, so that no word is pending after the text.
func (l language) text(n int) []byte { return l.textFrom(0, n) }

// textFrom is like text, but begins with the token at index `begin`.
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

// unit returns the unit of text speeds.
func (l language) unit() string {
	if l.upTo == nil {
		return bytes
	}
	return tokens
}
