package eval

import (
	"context"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file contains a baseline method without a network: an adaptive n-gram model of words, as in
// predictive keyboards. It learns from the text that the session has read and typed, and optionally
// from a prior text.
//
// Tokens are words and the single bytes between them; bytes beyond ASCII are parts of words. The
// model predicts the next byte of the current token, so suggestions are searched as with a network.

// NGram and NGramPrior are names for TypingOptions.Methods: the n-gram model without and with a
// prior text.
const (
	NGram      = "ngram"
	NGramPrior = "ngram+prior"

	ngramTail  = 256 // maximum bytes at the end of the text in which the context is searched
	ngramCalls = 100 // maximum calls of the model in a search; large, since a call is cheap
)

// ngram mixes the token counts of a session's text with the counts of a prior text.
type ngram struct {
	own, prior *ngramCounts // prior is nil without a prior text
	text       []byte
	read       int
	shares     map[lengths]*share

	tree suggest.Tree
}

// lengths classifies a position in the text. It has the lengths of the longest known contexts in
// the session's and the prior counts, and whether the last token is a word.
type lengths struct {
	own, prior int
	word       bool
}

// share has the expected numbers of tokens explained by the session's counts and by the prior
// counts.
type share struct{ own, prior float64 }

func newNGram(prior *ngramCounts) *ngram {
	return &ngram{own: newNGramCounts(), prior: prior, shares: map[lengths]*share{}}
}

func (g *ngram) ask(
	ctx context.Context, before, typed []byte, o suggest.Options,
) (suggest.Found, error) {
	g.learn(before, typed)
	g.tree.Reset()
	root := g.tree.Extend(g, suggest.None, nil, 1)
	o.Calls, o.Rows = ngramCalls, 1
	return g.tree.Search(ctx, g, root, o)
}

func (g *ngram) learn(before, typed []byte) {
	g.text = append(append(g.text[:0], before...), typed...)
	for g.read < len(g.text) {
		n := tokenSize(g.text[g.read:])
		if g.read+n == len(g.text) && wordByte(g.text[g.read]) {
			return // the last word may be incomplete
		}
		token := string(g.text[g.read : g.read+n])
		if g.prior != nil {
			g.weigh(lastTokensOf(g.text[:g.read]), token)
		}
		g.own.add(token)
		g.read += n
	}
}

// weigh updates the mixture weights of the session's and the prior counts after a token, by one
// step of online expectation maximization.
func (g *ngram) weigh(context []string, token string) {
	own, prior := g.own.at(context), g.prior.at(context)
	of := g.share(context, own, prior)
	a := of.own * g.own.probability(own, token)
	b := of.prior * g.prior.probability(prior, token)
	of.own += a / (a + b)
	of.prior += b / (a + b)
}

func (g *ngram) share(context []string, own, prior []uint64) *share {
	of := lengths{len(own), len(prior), len(context) > 0 && wordByte(context[len(context)-1][0])}
	if g.shares[of] == nil {
		g.shares[of] = &share{1, 1}
	}
	return g.shares[of]
}

// begin returns the probabilities of the tokens that begin with `text`, after a context. Element b
// is for tokens that continue with byte b. The last element is for `text` as a complete token.
func (g *ngram) begin(context []string, text string) (next [tokenEnds + 1]float64) {
	own := g.own.at(context)
	next = g.own.begin(own, text)
	if g.prior == nil {
		return next
	}
	prior := g.prior.at(context)
	of := g.share(context, own, prior)
	other, share := g.prior.begin(prior, text), of.own/(of.own+of.prior)
	for b := range next {
		next[b] = share*next[b] + (1-share)*other[b]
	}
	return next
}

func wordByte(b byte) bool { return b >= utf8.RuneSelf || suggest.OfWord(rune(b)) }

// tokenSize returns the length in bytes of the first token of a non-empty text: a word, or a single
// other byte.
func tokenSize(text []byte) int {
	n := 0
	for n < len(text) && wordByte(text[n]) {
		n++
	}
	return max(1, n)
}

// lastTokensOf returns up to ngramOrder last tokens of a text. A word at the end counts as
// complete.
func lastTokensOf(text []byte) []string { return behind(lastTokens(text)) }

// lastTokens splits the end of a text into up to ngramOrder complete tokens, in order, and the
// unfinished word after them.
func lastTokens(text []byte) (context []string, word string) {
	end := len(text)
	for end > 0 && wordByte(text[end-1]) {
		end--
	}
	word = string(text[end:])
	least := max(0, len(text)-ngramTail)
	for len(context) < ngramOrder && end > least {
		begin := end - 1
		for wordByte(text[begin]) && begin > least && wordByte(text[begin-1]) {
			begin--
		}
		context, end = append(context, string(text[begin:end])), begin
	}
	slices.Reverse(context)
	return context, word
}

// behind returns the context extended by a word, cut to the last ngramOrder tokens. If word is "",
// the context is unchanged.
func behind(context []string, word string) []string {
	if word == "" {
		return context
	}
	return append(context, word)[max(0, len(context)+1-ngramOrder):]
}

// Grow implements suggest.Source.
func (g *ngram) Grow(of []suggest.Prefix) {
	for _, p := range of {
		var path []byte
		for id := p.ID; ; {
			parent, b := g.tree.At(id)
			if parent == suggest.None {
				break
			}
			path, id = append(path, b), parent
		}
		slices.Reverse(path)
		tail := append(slices.Clone(g.text[max(0, len(g.text)-ngramTail):]), path...)
		context, word := lastTokens(tail)
		next := g.begin(context, word)
		if word != "" { // the word may be complete: then a byte between words follows
			after := g.begin(behind(context, word), "")
			sum := 0.
			for b, p := range after[:tokenEnds] {
				if !wordByte(byte(b)) {
					sum += p
				}
			}
			for b := range tokenEnds {
				if !wordByte(byte(b)) {
					next[b] = next[tokenEnds] * after[b] / sum
				}
			}
		}
		sum := 0.
		for _, p := range next[:tokenEnds] {
			sum += p
		}
		for b := range p.LogProbs {
			p.LogProbs[b] = float32(math.Log(next[b] / sum))
		}
	}
}

// Guess implements suggest.Source.
func (g *ngram) Guess(int32) []byte { return nil }
