package suggest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// table is a Source whose alphabet has few characters. Its distributions depend only on the last
// byte.
type table struct {
	tree  *Tree
	next  [256][256]float64
	calls int
	slow  time.Duration
	guess []byte
}

// newTable draws distributions over letters, separators, and the first byte of a character beyond
// ASCII.
func newTable(tree *Tree, seed uint64) *table {
	s, rng := &table{tree: tree}, rand.New(rand.NewPCG(seed, 1))
	for b := range s.next {
		sum := 0.
		for _, c := range []byte("ab .\xc3") {
			s.next[b][c] = math.Exp(2 * rng.NormFloat64())
			sum += s.next[b][c]
		}
		for _, c := range []byte("ab .\xc3") {
			s.next[b][c] /= sum
		}
	}
	// After its first byte, this character becomes é, è or invalid UTF-8.
	s.next[0xc3] = [256]float64{0xa9: 0.7, 0xa8: 0.2, 'a': 0.1}
	return s
}

func (s *table) Grow(of []Prefix) {
	s.calls++
	time.Sleep(s.slow)
	for _, p := range of {
		parent, b := s.tree.At(p.ID)
		if parent != p.Parent || b != p.Byte {
			panic("the prefix is another one in the tree")
		}
		for i := range p.LogProbs {
			p.LogProbs[i] = float32(math.Log(s.next[b][i]))
		}
	}
}

func (s *table) Guess(int32) []byte { return s.guess }

func ends(text string, u Unit) bool {
	word := strings.TrimLeft(text, " .")
	return u == Free || word != "" && len(text)-len(word) <= int(u.before()) &&
		!strings.ContainsAny(word, " .")
}

func TestSearchFindsWhatTryingAllTextsFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree Tree
		s := newTable(&tree, rapid.Uint64().Draw(t, "seed"))
		o := Options{
			N: 5, Unit: rapid.SampledFrom([]Unit{Word, WordPlus, Free}).Draw(t, "unit"),
			Least: rapid.SampledFrom([]float64{0.01, 0.05, 0.6}).Draw(t, "least"),
			Calls: 1 << 20, Rows: rapid.IntRange(1, 9).Draw(t, "rows"),
			Refused: rapid.SliceOfN(rapid.StringMatching(`[ab .é]{1,3}`), 0, 4).Draw(t, "refused"),
		}
		s.guess = []byte(rapid.StringMatching(`[ab .é]{0,5}`).Draw(t, "guess"))
		root := tree.Extend(s, None, []byte("a b"), 2)
		got, err := tree.Search(context.Background(), s, root, o)
		require.NoError(t, err)
		all, refused := map[string]Candidate{}, map[string]refusal{}
		var try func(text string, p, before float64)
		try = func(text string, p, before float64) {
			if p < LeastMin || len(text) > BytesMax {
				return
			}
			last := ("b" + text)[len(text)]
			if utf8.ValidString(text) && text != "" && ends(text, o.Unit) {
				c := Candidate{Text: text, Probability: p,
					Gain: float64(utf8.RuneCountInString(text)) - 1}
				if o.Unit != Free {
					space, stop := s.next[last][' '], s.next[last]['.']
					c.Probability *= space + stop
					c.Separator = " "
					c.Gain += max(space, stop) / (space + stop)
				}
				if slices.Contains(o.Refused, text) {
					refused[text] = refusal{c.Probability, before}
					if o.Unit == Free {
						return
					}
					refused[text] = refusal{c.Probability, p}
				} else {
					all[text] = c
				}
			}
			for b, q := range s.next[last] {
				if q > 0 && !(last == 0xc3 && b < 0x80) {
					try(text+string([]byte{byte(b)}), p*q, p)
				}
			}
		}
		try("", 1, 1)
		refuse(all, refused, o)
		saved := 0.
		var chosen []Candidate
		for _, c := range got.Candidates {
			want, ok := all[c.Text]
			require.True(t, ok, c.Text)
			require.InDelta(t, want.Probability, c.Probability, 1e-5)
			require.InDelta(t, want.Gain, c.Gain, 1e-5)
			most := 0.
			for _, other := range all {
				most = max(most, saves(with(chosen, other))-saved)
			}
			chosen = append(chosen, c)
			now := saves(chosen)
			require.InDelta(t, most, now-saved, 1e-4, "the one that adds most")
			require.Greater(t, most, savesLeast-1e-4, "it is worth a place")
			saved = now
		}
		if len(chosen) < o.N {
			for _, other := range all {
				require.LessOrEqual(t, saves(with(chosen, other))-saved, savesLeast+1e-4)
			}
		}
	})
}

// refusal contains the probability p of a refused text. The search finds the text at a prefix with
// the probability `at`.
type refusal struct{ p, at float64 }

// refuse distributes the probability of refused texts over all other texts, and drops texts that
// are less probable than o.Least.
func refuse(all map[string]Candidate, refused map[string]refusal, o Options) {
	rest, met := 1., map[string]bool{}
	for more := true; more; {
		more = false
		for text, r := range refused {
			if !met[text] && r.at >= o.Least*rest {
				more, met[text] = true, true
				rest = max(rest-r.p, LeastMin)
			}
		}
	}
	for text, c := range all {
		for of := range met {
			if o.Unit == Free && strings.HasPrefix(of, text) {
				c.Probability -= refused[of].p
			}
		}
		c.Probability /= rest
		all[text] = c
		if c.Probability < o.Least {
			delete(all, text)
		}
	}
}

func with(chosen []Candidate, other Candidate) []Candidate {
	if slices.ContainsFunc(chosen, func(c Candidate) bool { return c.Text == other.Text }) {
		return chosen
	}
	return append(slices.Clip(chosen), other)
}

// saves returns the mean number of keystrokes that candidates save. If several candidates are
// right, the longest counts.
func saves(chosen []Candidate) (sum float64) {
	for _, c := range chosen {
		alone := c.Probability // probability that c is the longest right candidate
		for _, d := range chosen {
			if d.Text != c.Text && strings.HasPrefix(d.Text, c.Text) && c.Separator == "" &&
				!slices.ContainsFunc(chosen, func(e Candidate) bool {
					return len(e.Text) > len(c.Text) && len(e.Text) < len(d.Text) &&
						strings.HasPrefix(d.Text, e.Text) && strings.HasPrefix(e.Text, c.Text)
				}) {
				alone -= d.Probability
			}
		}
		sum += alone * c.Gain
	}
	return sum
}

func TestTreeIsKeptFromKeyToKey(t *testing.T) {
	var tree Tree
	s := newTable(&tree, 5)
	root := tree.Extend(s, None, []byte("ab"), 8)
	o := Options{N: 5, Unit: Free, Calls: 1 << 20, Least: 0.01}
	_, err := tree.Search(t.Context(), s, root, o)
	require.NoError(t, err)
	id, length := tree.Follow([]byte("aba"))
	require.Equal(t, 3, length)
	size := len(tree.nodes)
	tree.Keep(id)
	require.NotEmpty(t, tree.free)
	before, err := tree.Search(t.Context(), s, id, o)
	require.NoError(t, err)
	require.LessOrEqual(t, len(tree.nodes), size+before.Rows, "nodes are used again")

	var fresh Tree
	s2 := newTable(&fresh, 5)
	want, err := fresh.Search(t.Context(), s2, fresh.Extend(s2, None, []byte("aba"), 8), o)
	require.NoError(t, err)
	require.Equal(t, want.Candidates, before.Candidates)
	require.Less(t, before.Rows, want.Rows)
	again, err := tree.Search(t.Context(), s, id, o)
	require.NoError(t, err)
	require.Zero(t, again.Calls)
}

func TestSearchKeepsItsBounds(t *testing.T) {
	var tree Tree
	s := newTable(&tree, 3)
	root := tree.Extend(s, None, nil, 8)
	found, err := tree.Search(t.Context(), s, root, Options{N: 5, Unit: Free, Calls: 2, Rows: 3})
	require.NoError(t, err)
	require.Equal(t, 2, found.Calls)
	require.LessOrEqual(t, found.Rows, 6)
	require.NotEmpty(t, found.Candidates)

	tree.Reset()
	s.calls, s.slow = 0, 20*time.Millisecond
	root = tree.Extend(s, None, nil, 8)
	found, err = tree.Search(t.Context(), s, root, Options{
		N: 5, Unit: Free, Calls: 1 << 20, Rows: 1, Within: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	require.LessOrEqual(t, found.Calls, 2)
	require.NotEmpty(t, found.Candidates)

	tree.Reset()
	root = tree.Extend(s, None, nil, 8)
	found, err = tree.Search(t.Context(), s, root, Options{N: 5, Unit: Free, Within: 1})
	require.NoError(t, err)
	require.Equal(t, 1, found.Calls, "one is made although the time is over")
	require.NotEmpty(t, found.Candidates)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tree.Search(ctx, s, root, Options{N: 1, Unit: Free})
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "a": true, "é": true, "\xc3": false, "€": true, "\xe2\x82": false, "a\xe2": false,
		"😀": true, "\xf0\x9f\x98": false, "\x80": true, "\xff": true,
	} {
		require.Equal(t, want, Whole([]byte(text)), "%q", text)
	}
}
