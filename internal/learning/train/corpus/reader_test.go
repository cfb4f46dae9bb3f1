package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const startToken = '\n'

// corpusOf returns a corpus of documents with the given sizes, in at most three domains.
func corpusOf(sizes ...int) *Corpus {
	c := &Corpus{Dir: "memory"}
	for d, size := range sizes {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte(17*d + i)
		}
		c.Documents = append(c.Documents, NewDocument(fmt.Sprintf("domain%d/%d.txt", d%3, d), text))
	}
	return c
}

func TestReaderCoversEverythingOnceAnEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 8).Draw(t, "sizes")
		batch := rapid.IntRange(1, 6).Draw(t, "batch")
		c := corpusOf(sizes...)
		if c.Bytes() < batch {
			t.Skip("too small")
		}
		r, err := NewReader(c, batch, 1, startToken, 0, rapid.Uint64().Draw(t, "seed"))
		require.NoError(t, err)
		type place struct{ doc, pos int }
		seen := map[place]int{}
		epochs := make([]int, batch)
		taken := batch
		in, out := make([]int32, batch), make([]int32, batch)
		for slices.Min(epochs) == 0 {
			before := slices.Clone(r.State.Lanes)
			r.Next(in, out)
			for b, l := range r.State.Lanes {
				if before[b].Pos == r.spans[before[b].Span].end {
					epochs[b] = taken / len(r.spans)
					taken++
				}
				doc := r.spans[l.Span].doc
				text := c.Documents[doc].Text
				require.Equal(t, int32(text[l.Pos-1]), out[b])
				if l.Pos > 1 {
					require.Equal(t, int32(text[l.Pos-2]), in[b])
				} else {
					require.Equal(t, int32(startToken), in[b])
				}
				if epochs[b] == 0 {
					seen[place{doc, l.Pos - 1}]++
				}
			}
		}
		require.Len(t, seen, c.Bytes())
		for p, n := range seen {
			require.Equal(t, 1, n, p)
		}
	})
}

// Domains are read in proportion to bytes^(1-balance). The numbers of times that the spans of a
// domain are read differ by at most two.
func TestReaderBalancesDomains(t *testing.T) {
	c := corpusOf(6400, 64, 1600)
	read := func(balance float64, bytes int) (parts [3]float64, seen map[span]int) {
		r, err := NewReader(c, 1, 1, startToken, balance, 3)
		require.NoError(t, err)
		in, out := make([]int32, 1), make([]int32, 1)
		seen = map[span]int{}
		for range bytes {
			r.Next(in, out)
			l := r.State.Lanes[0]
			if s := r.spans[l.Span]; l.Pos == s.end {
				seen[s]++
			}
			parts[r.spans[l.Span].doc] += 1 / float64(bytes)
		}
		return parts, seen
	}
	for balance, want := range map[float64][3]float64{0: {100. / 126, 1. / 126, 25. / 126},
		.5: {10. / 16, 1. / 16, 5. / 16}, 1: {1. / 3, 1. / 3, 1. / 3}} {
		parts, seen := read(balance, 80_640)
		for d := range want {
			require.InDelta(t, want[d], parts[d], .02, "balance %g, domain %d", balance, d)
		}
		least, most := [3]int{1e9, 1e9, 1e9}, [3]int{}
		for s, n := range seen {
			least[s.doc], most[s.doc] = min(least[s.doc], n), max(most[s.doc], n)
		}
		for d := range want {
			require.LessOrEqual(t, most[d]-least[d], 2, "balance %g, domain %d", balance, d)
		}
	}
}

func TestReaderResumes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := corpusOf(300, 20, 1, 77, 500)
		seed := rapid.Uint64().Draw(t, "seed")
		batch, segment := 3, rapid.IntRange(1, 40).Draw(t, "segment")
		balance := rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "balance")
		a, err := NewReader(c, batch, segment, startToken, balance, seed)
		require.NoError(t, err)
		in, out := make([]int32, batch*segment), make([]int32, batch*segment)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			a.Next(in, out)
		}
		b, err := NewReader(c, batch, segment, startToken, balance, seed)
		require.NoError(t, err)
		text, err := json.Marshal(a.State)
		require.NoError(t, err)
		var s ReaderState
		require.NoError(t, json.Unmarshal(text, &s))
		require.NoError(t, b.Restore(s))
		in2, out2 := make([]int32, len(in)), make([]int32, len(out))
		for range 30 {
			a.Next(in, out)
			b.Next(in2, out2)
			require.Equal(t, in, in2)
			require.Equal(t, out, out2)
		}
	})
}

func TestReaderSeedDecidesTheOrder(t *testing.T) {
	read := func(seed uint64) []int32 {
		r, err := NewReader(corpusOf(50, 60, 70, 80, 90, 100), 2, 100, startToken, 0, seed)
		require.NoError(t, err)
		in, out := make([]int32, 200), make([]int32, 200)
		r.Next(in, out)
		return out
	}
	require.Equal(t, read(1), read(1))
	require.NotEqual(t, read(1), read(2))
}

func TestTooLittleDataSaysHowMuchIsNeeded(t *testing.T) {
	_, err := NewReader(corpusOf(100, 27), 4, 32, startToken, 0, 1)
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "contains 127 bytes of text in 2 files, expected at least 128 "+
		"(4 streams of 32 bytes; fewer or shorter ones need less)")
}

func TestReaderRefusesForeignStates(t *testing.T) {
	r, err := NewReader(corpusOf(100, 100), 2, 10, startToken, 0, 1)
	require.NoError(t, err)
	good := r.State
	for name, s := range map[string]ReaderState{
		"lanes": {Lanes: []Lane{{}}},
		"taken": {Taken: 99, Lanes: good.Lanes},
		"span":  {Lanes: []Lane{{Span: 7}, {}}},
		"pos":   {Lanes: []Lane{{Span: 0, Pos: 101}, {}}},
	} {
		var state *StateError
		require.ErrorAs(t, r.Restore(s), &state, name)
	}
}

func TestPiecesChangeDomain(t *testing.T) {
	c := corpusOf(400, 300, 500, 20, 1, 350)
	s := NewPieces(c, nil, 30, 200, startToken, 5)
	last, domain, pieces := int32(startToken), -1, 0
	in, out := make([]int32, 1), make([]int32, 1)
	for range 20000 {
		begins := s.Next(in, out)
		require.Equal(t, last, in[0])
		require.Equal(t, int32(c.Documents[s.State.Doc].Text[s.State.Pos-1]), out[0])
		if begins {
			pieces++
			require.NotEqual(t, domain, s.State.Domain)
			domain = s.State.Domain
			size := len(c.Documents[s.State.Doc].Text)
			require.LessOrEqual(t, s.State.End, size)
			require.LessOrEqual(t, s.State.End-s.State.Pos+1, 200)
		}
		last = out[0]
	}
	require.Greater(t, pieces, 20000/200)
}

func TestPiecesBeginWithALineWhereOneIsNear(t *testing.T) {
	text := bytes.Repeat([]byte("a line of text\n"), 100)
	c := &Corpus{Documents: []Document{NewDocument("d/t", text)}}
	s := NewPieces(c, nil, 100, 200, startToken, 1)
	for range 200 {
		s.begin()
		require.True(t, s.State.Pos == 0 || text[s.State.Pos-1] == '\n')
		require.Greater(t, s.State.End, s.State.Pos)
	}
}

func TestHeldOutDomainsAreHalfOfThePieces(t *testing.T) {
	c := corpusOf(400, 300, 500, 200, 250, 350)
	s := NewPieces(c, []string{"domain1"}, 10, 20, startToken, 3)
	held := 0
	for range 2000 {
		s.begin()
		if c.Documents[s.State.Doc].Domain == "domain1" {
			held++
		}
	}
	require.InDelta(t, 1000, held, 5*22.4) // five standard deviations
}

func TestPiecesResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := corpusOf(400, 300, 50, 20, 1, 350)
		seed := rapid.Uint64().Draw(t, "seed")
		a := NewPieces(c, []string{"domain2"}, 5, 60, startToken, seed)
		in, out := make([]int32, 37), make([]int32, 37)
		for range rapid.IntRange(0, 50).Draw(t, "chunks") {
			a.Next(in, out)
		}
		b := NewPieces(c, []string{"domain2"}, 5, 60, startToken, seed)
		require.NoError(t, b.Restore(a.State))
		in2, out2 := make([]int32, 37), make([]int32, 37)
		for range 30 {
			require.Equal(t, a.Next(in, out), b.Next(in2, out2))
			require.Equal(t, in, in2)
			require.Equal(t, out, out2)
		}
	})
}

func TestPiecesRefuseForeignStates(t *testing.T) {
	s := NewPieces(corpusOf(100), nil, 10, 20, startToken, 1)
	for _, st := range []PiecesState{{Doc: 1}, {Doc: -1}, {Domain: 3}, {Pos: 5, End: 101},
		{Pos: 7, End: 6}} {
		var state *StateError
		require.ErrorAs(t, s.Restore(st), &state)
	}
}
