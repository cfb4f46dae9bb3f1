package eval

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// This file is a rival without a network: an adaptive n-gram of words, as predictive keyboards
// have, of the text that was read and typed. Tokens are words and the single bytes between them;
// bytes beyond ASCII count as parts of words. The distributions of the next token are interpolated
// over contexts h of up to four tokens,
//
//	P(w|h) = (1-e) c(hw)/c(h) + e P(w|h')
//
// with c the counts, h' the context h without its first token, and e how often a token was new so
// far in contexts of the kind. Without a context, tokens are spelt byte by byte, as Witten and Bell
// (1991) interpolate. Of the token under way this gives the next byte, so that the same search and
// the same choice make candidates of it as of a network's distributions.

// NGram is the name of the rival among the methods of TypingOptions.
const NGram = "ngram"

const (
	ngramOrder = 4   // tokens of a context
	ngramTail  = 256 // bytes in which the last tokens are looked for
	ngramCalls = 100 // prefixes of a search; without a network they are cheap
)

// ngram is counts of tokens by their contexts.
type ngram struct {
	counts map[string]map[string]float64
	text   []byte
	read   int // bytes of the text whose tokens are counted: up to the word under way
	news   map[kind]*novelty
	spells map[string]*spelling // by the beginning of a token
	bytes  spelling             // of all tokens, and ends

	tree suggest.Tree
}

func newNGram() *ngram {
	return &ngram{counts: map[string]map[string]float64{}, spells: map[string]*spelling{},
		news: map[kind]*novelty{}}
}

// ask suggests what comes behind the text that was read before, and typed so far.
func (g *ngram) ask(
	ctx context.Context, before, typed []byte, o suggest.Options,
) (suggest.Found, error) {
	g.learn(before, typed)
	g.tree.Reset()
	root := g.tree.Extend(g, suggest.None, nil, 1)
	o.Calls, o.Rows = ngramCalls, 1
	return g.tree.Search(ctx, g, root, o)
}

// learn counts the tokens that are complete.
func (g *ngram) learn(before, typed []byte) {
	g.text = append(append(g.text[:0], before...), typed...)
	for g.read < len(g.text) {
		n := tokenSize(g.text[g.read:])
		if g.read+n == len(g.text) && wordByte(g.text[g.read]) {
			return // more of the word may come
		}
		token := string(g.text[g.read : g.read+n])
		context := behind(lastTokens(g.text[:g.read]))
		for k := 1; k <= len(context); k++ {
			h := strings.Join(context[len(context)-k:], "\x00")
			if g.counts[h] == nil {
				g.counts[h] = map[string]float64{}
			} else {
				g.see(context, k, g.counts[h], token)
			}
			g.counts[h][token]++
		}
		for i := range n + 1 {
			if g.spells[token[:i]] == nil {
				g.spells[token[:i]] = &spelling{}
			}
			next := tokenEnds
			if i < n {
				next = int(token[i])
			}
			g.spells[token[:i]][next]++
			g.bytes[next]++
		}
		g.read += n
	}
}

// see learns how often a token is new in a context.
func (g *ngram) see(context []string, k int, tokens map[string]float64, token string) {
	total := 0.
	for _, n := range tokens {
		total += n
	}
	of := g.novelty(context, k, total)
	of.met++
	if tokens[token] == 0 {
		of.new++
	}
}

// novelty is how many tokens were new in contexts of a kind.
type novelty struct{ met, new float64 }

// kind is contexts of so many tokens, with a word at their end or not, that have come about so
// often.
type kind struct {
	tokens, often int
	word          bool
}

// novelty is that of a context of the last k tokens that has come so often.
func (g *ngram) novelty(context []string, k int, total float64) *novelty {
	of := kind{k, bits.Len(uint(total)), wordByte(context[len(context)-1][0])}
	if g.news[of] == nil {
		g.news[of] = &novelty{}
	}
	return g.news[of]
}

func (n novelty) share() float64 { return (n.new + 0.5) / (n.met + 1) }

// spelling is counts, or probabilities, of the byte behind the beginning of a token, and of its
// end.
type spelling [tokenEnds + 1]float64

const tokenEnds = 256

// spell is how a token goes on without a context: as those that were seen, else as any.
func (g *ngram) spell(text string) (p spelling) {
	all := 0.
	for _, n := range g.bytes {
		all += n + 1
	}
	for b, n := range g.bytes {
		p[b] = (n + 1) / all
	}
	seen := g.spells[text]
	if seen == nil {
		return p
	}
	kinds, total := 0., 0.
	for _, n := range seen {
		if total += n; n > 0 {
			kinds++
		}
	}
	for b, n := range seen {
		p[b] = (n + kinds*p[b]) / (total + kinds)
	}
	return p
}

func wordByte(b byte) bool { return b >= utf8.RuneSelf || suggest.OfWord(rune(b)) }

// tokenSize is the length of the token with which a text begins.
func tokenSize(text []byte) int {
	n := 0
	for n < len(text) && wordByte(text[n]) {
		n++
	}
	return max(1, n)
}

// lastTokens are the last tokens of a text, and the word under way at its end.
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

// behind is the context behind a word that has ended, "" if there is none.
func behind(context []string, word string) []string {
	if word == "" {
		return context
	}
	return append(context, word)[max(0, len(context)+1-ngramOrder):]
}

// begin says how likely a token is that begins with a text: by the byte behind it, and the text
// itself as a whole token.
func (g *ngram) begin(context []string, text string) (next [256]float64, whole float64) {
	p := 1.
	for i := range text {
		p *= g.spell(text[:i])[text[i]]
	}
	spelt := g.spell(text)
	for b := range next {
		next[b] = p * spelt[b]
	}
	whole = p * spelt[tokenEnds]
	for k := 1; k <= len(context); k++ {
		tokens := g.counts[strings.Join(context[len(context)-k:], "\x00")]
		if len(tokens) == 0 {
			break
		}
		total := 0.
		for _, n := range tokens {
			total += n
		}
		escape := g.novelty(context, k, total).share()
		whole *= escape
		for b := range next {
			next[b] *= escape
		}
		known := (1 - escape) / total
		for token, n := range tokens {
			switch rest, ok := strings.CutPrefix(token, text); {
			case !ok:
			case rest == "":
				whole += n * known
			default:
				next[rest[0]] += n * known
			}
		}
	}
	return next, whole
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
		next, whole := g.begin(context, word)
		if word != "" { // a word ends before one of the bytes between words
			after, _ := g.begin(behind(context, word), "")
			sum := 0.
			for b, p := range after {
				if !wordByte(byte(b)) {
					sum += p
				}
			}
			for b := range next {
				if !wordByte(byte(b)) {
					next[b] = whole * after[b] / sum
				}
			}
		}
		sum := 0.
		for _, p := range next {
			sum += p
		}
		for b := range p.LogProbs {
			p.LogProbs[b] = float32(math.Log(next[b] / sum))
		}
	}
}

// Guess implements suggest.Source.
func (g *ngram) Guess(int32) []byte { return nil }
