package eval

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// This file counts tokens by the tokens before them, and interpolates as modified Kneser-Ney does
// (Chen and Goodman, 1998): with h a context of up to four tokens, h' the same without its first,
//
//	P(w|h) = (c(hw) - D(c(hw))) / c(h) + (D1 N1(h) + D2 N2(h) + D3 N3(h)) / c(h) P(w|h')
//
// c counts occurrences in the longest contexts, and in shorter ones in how many longer ones a token
// was met. N1, N2 and N3 are how many tokens were met once, twice, more often. The discounts D
// follow, for each length of contexts, from how many counts are one, two, three and four. Without a
// context, words that were never met are spelt.

const ngramOrder = 4 // tokens of a context

// ngramCounts is what is known of the tokens of a text. Its maps are flat, as they are large.
type ngramCounts struct {
	ids      map[string]int32
	tokens   []string
	contexts map[uint64]int32 // numbers of places
	grams    map[uint64]int32 // by context and token, numbers of counts
	places   []ngramPlace
	counts   []ngramCount
	met      [ngramOrder + 1][5]float64 // how many counts are so high, by tokens of the context
	spelling spelling
	views    map[uint64]*ngramView
	last     []int32 // tokens, the last one last
}

// ngramPlace is a context.
type ngramPlace struct {
	newest int32 // number of the count of the token that was new last
	total  int32
	kinds  [3]int32 // tokens met once, twice, more often
}

// ngramCount is how often a token was met in a context.
type ngramCount struct {
	token, n int32
	older    int32 // number of another count in the context, or none
}

const noCount = -1

func newNGramCounts() *ngramCounts {
	return &ngramCounts{
		ids: map[string]int32{}, contexts: map[uint64]int32{}, grams: map[uint64]int32{},
		spelling: spelling{}, views: map[uint64]*ngramView{},
	}
}

// add counts the next token of the text.
func (c *ngramCounts) add(token string) {
	id, ok := c.ids[token]
	if !ok {
		id = int32(len(c.tokens))
		token = strings.Clone(token)
		c.ids[token], c.tokens = id, append(c.tokens, token)
		c.spelling.learn(token)
	}
	keys := c.contextKeys(c.last)
	for k := len(keys) - 1; k >= 0 && c.meet(k, keys[k], id); k-- {
	}
	if c.last = append(c.last, id); len(c.last) > ngramOrder {
		c.last = slices.Delete(c.last, 0, 1)
	}
	clear(c.views)
}

// meet counts a token in a context of k tokens, and reports whether it is new there.
func (c *ngramCounts) meet(k int, key uint64, token int32) (fresh bool) {
	at, ok := c.contexts[key]
	if !ok {
		at = int32(len(c.places))
		c.contexts[key], c.places = at, append(c.places, ngramPlace{newest: noCount})
	}
	place := &c.places[at]
	i, ok := c.grams[mixKey(key, token)]
	if !ok {
		i = int32(len(c.counts))
		c.grams[mixKey(key, token)] = i
		c.counts = append(c.counts, ngramCount{token: token, older: place.newest})
		place.newest = i
	}
	n := &c.counts[i].n
	if *n > 0 {
		place.kinds[min(*n, 3)-1]--
		c.met[k][min(*n, 5)-1]--
	}
	*n++
	place.total++
	place.kinds[min(*n, 3)-1]++
	c.met[k][min(*n, 5)-1]++
	return !ok
}

// contextKeys names the contexts of no, one and more tokens at the end of some.
func (c *ngramCounts) contextKeys(tokens []int32) []uint64 {
	keys := []uint64{1}
	if len(tokens) > 0 && wordByte(c.tokens[tokens[len(tokens)-1]][0]) {
		keys[0] = 2
	}
	for i := len(tokens) - 1; i >= 0; i-- {
		keys = append(keys, mixKey(keys[len(keys)-1], tokens[i]))
	}
	return keys
}

// mixKey hashes a token into a key (the finalizer of SplitMix64).
func mixKey(key uint64, token int32) uint64 {
	x := key*0x9e3779b97f4a7c15 + uint64(token) + 1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at returns the keys of the contexts that were met at the end of some tokens, the shortest first.
func (c *ngramCounts) at(context []string) (keys []uint64) {
	keys = []uint64{1}
	if len(context) > 0 && wordByte(context[len(context)-1][0]) {
		keys[0] = 2
	}
	for i := len(context) - 1; i >= 0; i-- {
		id, ok := c.ids[context[i]]
		if !ok {
			break
		}
		key := mixKey(keys[len(keys)-1], id)
		if _, ok := c.contexts[key]; !ok {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// discounts are what counts of one, two and more are too high by, in contexts of so many tokens.
func (c *ngramCounts) discounts(k int) [3]float64 {
	n1, n2, n3, n4 := c.met[k][0]+8, c.met[k][1]+3, c.met[k][2]+1.5, c.met[k][3]+1
	y := n1 / (n1 + 2*n2)
	return [3]float64{
		min(max(1-2*y*n2/n1, 0.05), 0.95), min(max(2-3*y*n3/n2, 0.05), 1.95),
		min(max(3-4*y*n4/n3, 0.05), 2.95),
	}
}

// escape is the share that a context leaves to shorter ones.
func (of ngramPlace) escape(d [3]float64) float64 {
	sum := 0.
	for i, n := range of.kinds {
		sum += float64(n) * d[i]
	}
	return sum / float64(of.total)
}

// probability is that of a token behind contexts that were met.
func (c *ngramCounts) probability(keys []uint64, token string) float64 {
	p := c.spelling.probability(token)
	id, known := c.ids[token]
	for k, key := range keys {
		at, ok := c.contexts[key]
		if !ok {
			break // nothing was read yet
		}
		d := c.discounts(k)
		p *= c.places[at].escape(d)
		if i, ok := c.grams[mixKey(key, id)]; known && ok {
			p += c.counts[i].share(d, c.places[at])
		}
	}
	return p
}

// share is the probability of a token in its context, without what is left to shorter ones.
func (n ngramCount) share(d [3]float64, of ngramPlace) float64 {
	return (float64(n.n) - d[min(n.n, 3)-1]) / float64(of.total)
}

// ngramView is the tokens that were met in a context, in the order of their texts.
type ngramView struct {
	escape float64
	tokens []string
	sums   []float64 // of the probabilities of the tokens before each, without what is escape's
}

// view returns that of a context of k tokens.
func (c *ngramCounts) view(k int, key uint64) *ngramView {
	if v := c.views[key]; v != nil {
		return v
	}
	v := &ngramView{escape: 1, sums: []float64{0}}
	at, ok := c.contexts[key]
	if !ok {
		return v // nothing was read yet
	}
	place, d := c.places[at], c.discounts(k)
	var counts []ngramCount
	for i := place.newest; i != noCount; i = c.counts[i].older {
		counts = append(counts, c.counts[i])
	}
	slices.SortFunc(counts, func(a, b ngramCount) int {
		return cmp.Compare(c.tokens[a.token], c.tokens[b.token])
	})
	v.escape = place.escape(d)
	for i, n := range counts {
		v.tokens = append(v.tokens, c.tokens[n.token])
		v.sums = append(v.sums, v.sums[i]+n.share(d, place))
	}
	c.views[key] = v
	return v
}

// begin says how likely a token is that begins with a text, behind contexts that were met: by the
// byte behind the text, and the text itself as a whole token.
func (c *ngramCounts) begin(keys []uint64, text string) (next [tokenEnds + 1]float64) {
	p := c.spelling.begins(text)
	next = c.spelling.next(text)
	for b := range next {
		next[b] *= p
	}
	for k, key := range keys {
		v := c.view(k, key)
		for b := range next {
			next[b] *= v.escape
		}
		i := sort.SearchStrings(v.tokens, text)
		if i < len(v.tokens) && v.tokens[i] == text {
			next[tokenEnds] += v.sums[i+1] - v.sums[i]
			i++
		}
		for i < len(v.tokens) && strings.HasPrefix(v.tokens[i], text) {
			b := v.tokens[i][len(text)]
			n := sort.Search(len(v.tokens)-i, func(j int) bool {
				t := v.tokens[i+j]
				return !strings.HasPrefix(t, text) || t[len(text)] != b
			})
			next[b] += v.sums[i+n] - v.sums[i]
			i += n
		}
	}
	return next
}

// spelling is the bytes that were met behind others in tokens, each token once: interpolated over
// up to spellingOrder bytes as Witten and Bell (1991) do.
type spelling map[string]*letters

// letters are how often bytes, or the end of the token, were met in a context.
type letters struct {
	total float64
	of    []letter
}

type letter struct {
	b int // or tokenEnds
	n float64
}

const (
	tokenEnds     = 256
	spellingOrder = 4
)

// spellingContexts are those behind the beginning of a token, the shortest first. A zero byte
// stands in front of a token.
func spellingContexts(text string) (contexts [spellingOrder + 1]string) {
	text = "\x00" + text
	for i := range contexts {
		contexts[i] = text[max(0, len(text)-i):]
	}
	return contexts
}

// letterAt is the i-th byte of a token, or its end.
func letterAt(token string, i int) int {
	if i == len(token) {
		return tokenEnds
	}
	return int(token[i])
}

func (s spelling) learn(token string) {
	for i := range len(token) + 1 {
		b := letterAt(token, i)
		contexts := spellingContexts(token[:i])
		for _, context := range contexts[:min(i+1, spellingOrder)+1] {
			of := s[context]
			if of == nil {
				of = &letters{}
				s[strings.Clone(context)] = of
			}
			at := slices.IndexFunc(of.of, func(l letter) bool { return l.b == b })
			if at < 0 {
				at, of.of = len(of.of), append(of.of, letter{b: b})
			}
			of.of[at].n++
			of.total++
		}
	}
}

// next is how a token goes on.
func (s spelling) next(text string) (p [tokenEnds + 1]float64) {
	for b := range p {
		p[b] = 1. / (tokenEnds + 1)
	}
	contexts := spellingContexts(text)
	for _, context := range contexts[:min(len(text)+1, spellingOrder)+1] {
		of := s[context]
		if of == nil {
			break
		}
		kinds := float64(len(of.of))
		for b := range p {
			p[b] *= kinds / (of.total + kinds)
		}
		for _, l := range of.of {
			p[l.b] += l.n / (of.total + kinds)
		}
	}
	return p
}

// probability is that of a whole token.
func (s spelling) probability(token string) float64 {
	return s.begins(token) * s.one(token, tokenEnds)
}

// begins is the probability of a token that begins with a text.
func (s spelling) begins(text string) float64 {
	p := 1.
	for i := range len(text) {
		p *= s.one(text[:i], int(text[i]))
	}
	return p
}

// one is the probability of one byte, or the end, behind the beginning of a token.
func (s spelling) one(text string, b int) float64 {
	p := 1. / (tokenEnds + 1)
	contexts := spellingContexts(text)
	for _, context := range contexts[:min(len(text)+1, spellingOrder)+1] {
		of := s[context]
		if of == nil {
			break
		}
		kinds := float64(len(of.of))
		p *= kinds
		if at := slices.IndexFunc(of.of, func(l letter) bool { return l.b == b }); at >= 0 {
			p += of.of[at].n
		}
		p /= of.total + kinds
	}
	return p
}
