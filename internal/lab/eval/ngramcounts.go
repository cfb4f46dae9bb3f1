package eval

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// This file counts how often tokens follow contexts. It computes probabilities by interpolated
// modified Kneser-Ney smoothing (Chen and Goodman, 1998). Let h be a context of up to four tokens,
// and h' the context without the first token of h. Then
//
//	P(w|h) = (c(hw) - D(c(hw))) / c(h) + (D1 N1(h) + D2 N2(h) + D3 N3(h)) / c(h) P(w|h')
//
// If h has four tokens, c(hw) is the number of occurrences of hw. For a shorter h, c(hw) is the
// number of different tokens before hw. N1, N2 and N3 are the numbers of tokens that followed h
// once, twice and more often. The discount D(c) is D1, D2 or D3 for c = 1, c = 2 and larger c. D1,
// D2 and D3 are computed for each length of h, from the numbers of counts that are one to four.
//
// The empty context only tells whether the last token is a word, since a word cannot follow a word.
// For the empty context, P(w|h') is the probability of the spelling of w.

const ngramOrder = 4 // maximum number of tokens in a context

// ngramCounts holds the counts of a text's tokens, by context.
type ngramCounts struct {
	ids      map[string]int32
	tokens   []string
	contexts map[uint64]int32 // from the key of a context to an index in `places`
	grams    map[uint64]int32 // from the key of a context with a token to an index in `counts`
	places   []ngramPlace
	counts   []ngramCount
	// met[k][n-1] is the number of counts of value n in contexts of k tokens; the last element is
	// for larger n
	met      [ngramOrder + 1][5]float64
	spelling spelling
	views    map[uint64]*ngramView
	last     []int32
}

type ngramPlace struct {
	newest int32 // index of the count added last in this context, or noCount
	total  int32
	kinds  [3]int32 // numbers of tokens counted once, twice, and more often
}

type ngramCount struct {
	token, n int32
	older    int32 // index of the count added before in the same context, or noCount
}

const noCount = -1

func newNGramCounts() *ngramCounts {
	return &ngramCounts{
		ids: map[string]int32{}, contexts: map[uint64]int32{}, grams: map[uint64]int32{},
		spelling: spelling{}, views: map[uint64]*ngramView{},
	}
}

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

// meet counts a token in a context of k tokens, and reports whether the token is new in this
// context.
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

// contextKeys returns the keys of all contexts that end with the last token, from the shortest to
// the longest.
func (c *ngramCounts) contextKeys(tokens []int32) []uint64 {
	keys := []uint64{shortest}
	if n := len(tokens); n > 0 && wordByte(c.tokens[tokens[n-1]][0]) {
		keys[0] = shortestBehindWord
	}
	for i := len(tokens) - 1; i >= 0; i-- {
		keys = append(keys, mixKey(keys[len(keys)-1], tokens[i]))
	}
	return keys
}

// The empty context has two keys: shortestBehindWord if the last token is a word, otherwise
// shortest.
const shortest, shortestBehindWord = 1, 2

// mixKey hashes a key and a token into a new key, by the finalizer of SplitMix64.
func mixKey(key uint64, token int32) uint64 {
	x := key*0x9e3779b97f4a7c15 + uint64(token) + 1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at returns the keys of known contexts that end with the last token, from the shortest to the
// longest. A context is known if the counted text contains it.
func (c *ngramCounts) at(context []string) (keys []uint64) {
	keys = []uint64{shortest}
	if n := len(context); n > 0 && wordByte(context[n-1][0]) {
		keys[0] = shortestBehindWord
	}
	for i := len(context) - 1; i >= 0; i-- {
		id, known := c.ids[context[i]]
		key := mixKey(keys[len(keys)-1], id)
		if _, met := c.contexts[key]; !known || !met {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// discounts returns the discounts D1, D2 and D3 for counts of one, two and more, in contexts of k
// tokens.
func (c *ngramCounts) discounts(k int) [3]float64 {
	// The added constants stabilize the discounts while few tokens are counted.
	n1, n2, n3, n4 := c.met[k][0]+8, c.met[k][1]+3, c.met[k][2]+1.5, c.met[k][3]+1
	y := n1 / (n1 + 2*n2)
	return [3]float64{
		min(max(1-2*y*n2/n1, 0.05), 0.95), min(max(2-3*y*n3/n2, 0.05), 1.95),
		min(max(3-4*y*n4/n3, 0.05), 2.95),
	}
}

// escape returns the probability that a context leaves to shorter contexts. The parameter d has the
// discounts.
func (of ngramPlace) escape(d [3]float64) float64 {
	sum := 0.
	for i, n := range of.kinds {
		sum += float64(n) * d[i]
	}
	return sum / float64(of.total)
}

// probability returns the probability of a token after the contexts of `keys`, given from the
// shortest to the longest.
func (c *ngramCounts) probability(keys []uint64, token string) float64 {
	p := c.spelling.probability(token)
	id, known := c.ids[token]
	for k, key := range keys {
		at, ok := c.contexts[key]
		if !ok {
			break
		}
		d := c.discounts(k)
		p *= c.places[at].escape(d)
		if i, ok := c.grams[mixKey(key, id)]; known && ok {
			p += c.counts[i].share(d, c.places[at])
		}
	}
	return p
}

// share returns the discounted probability of a token in its context, without the part from shorter
// contexts.
func (n ngramCount) share(d [3]float64, of ngramPlace) float64 {
	return (float64(n.n) - d[min(n.n, 3)-1]) / float64(of.total)
}

// ngramView lists the tokens counted in a context, sorted by their bytes.
type ngramView struct {
	escape float64
	tokens []string
	// sums[i] is the total probability of tokens[:i], without the part from shorter contexts
	sums []float64
}

// view returns the sorted tokens of a context of k tokens. The result is cached until the next call
// of add.
func (c *ngramCounts) view(k int, key uint64) *ngramView {
	if v := c.views[key]; v != nil {
		return v
	}
	v := &ngramView{escape: 1, sums: []float64{0}}
	at, ok := c.contexts[key]
	if !ok {
		return v
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

// begin returns the probabilities of the tokens that begin with `text`, after the contexts of
// `keys`. Element b is for tokens that continue with byte b. The last element is for `text` as a
// complete token.
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
