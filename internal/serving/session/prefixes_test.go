package session

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// known returns how many bytes of a prompt are cached for the next generation of a session.
func known(t fatal, mg *Manager, who Caller, id, prompt string) (read int) {
	t.Helper()
	s, done, err := mg.grounds(who, id, "")
	require.NoError(t, err)
	defer done()
	g := generation{engine: mg.engine, s: s, blank: id == ""}
	if id == "" {
		require.NoError(t, s.openBlank(background, frozenMax))
	} else {
		require.NoError(t, s.openCurrent(background, 0))
	}
	defer s.unlock()
	_, read = g.beginReading(g.promptEnds([]byte(prompt)))
	return read
}

func oneByte(t fatal, mg *Manager, who Caller, id, prompt string) {
	t.Helper()
	r := BatchRequest{Prompts: [][]byte{[]byte(prompt)}, N: 1, MaxTokens: 1}
	require.NoError(t, mg.CompleteBatch(background, who, id, r, noPieces))
}

// Prompts grow, shrink and change as in an editor. The answers equal those without the cache.
func TestKnownPrefixChangesNoBit(t *testing.T) {
	m := testModel(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		base, id := stream.New(m, stream.DefaultsFor(m, stream.Static)), ""
		if rapid.Bool().Draw(t, "session") {
			r, fed := drawRequest(t), logText(rapid.IntRange(0, 60).Draw(t, "fed"))
			base, _ = alone(t, m, r, fed)
			id = create(t, mg, r)
			score(t, mg, id, fed)
		}
		seed := rapid.Uint64Range(0, SeedMax).Draw(t, "seed")
		text := []byte(logText(400)[:rapid.IntRange(0, 4*testChunk).Draw(t, "prompt")])
		for range rapid.IntRange(1, 8).Draw(t, "keys") {
			switch rapid.IntRange(0, 4).Draw(t, "key") {
			case 0:
				text = text[:len(text)-rapid.IntRange(0, len(text)).Draw(t, "cut")]
			case 1:
				if len(text) > 0 {
					text[rapid.IntRange(0, len(text)-1).Draw(t, "at")]++
				}
			case 2:
				if id != "" {
					score(t, mg, id, "more\n")
					w.Feed(base, []byte("more\n"), nil)
				}
			default:
				text = append(text, logText(40)[:rapid.IntRange(0, 40).Draw(t, "more")]...)
			}
			r := BatchRequest{
				Prompts: [][]byte{slices.Clone(text)}, N: 2, MaxTokens: 5, Temperature: ptr(0.9),
				Seed: &seed, LogProbs: true,
			}
			for i, pieces := range batch(t, mg, id, r) {
				sampling := txl.Sampling{
					Temperature: 0.9, TopP: 1, Dry: txl.DryDefault,
					Seed: (seed + uint64(i)) & SeedMax,
				}
				sampled, wantLogProbs := inOneGo(base, w, string(text), sampling, r.MaxTokens)
				sampled = new(tokenizer.UTF8).Append(nil, sampled)
				got, logProbs := joined(pieces)
				require.Equal(t, string(sampled), got)
				require.Equal(t, append([]float64(nil), wantLogProbs[:len(sampled)]...), logProbs)
			}
		}
		if id != "" {
			require.Equal(t, base.Hash(), hash(t, mg, id), "the session is as it was")
			require.NoError(t, mg.Delete(Caller{}, id))
		}
		all := mg.engine.budget.Max()
		require.NoError(t, mg.engine.budget.Check(all), "kept prefixes make room")
	})
}

// Reading starts at the last cached end of a chunk in the beginning that two prompts share.
func TestKnownPrefixIsNotReadAgain(t *testing.T) {
	mg := newManager(t, Options{})
	long := logText(100*testChunk + 3)
	for _, id := range []string{"", create(t, mg, CreateRequest{})} {
		require.Zero(t, known(t, mg, Caller{}, id, long))
		oneByte(t, mg, Caller{}, id, long)
		require.Equal(t, 100*testChunk, known(t, mg, Caller{}, id, long+"x"))
		require.Equal(t, 100*testChunk, known(t, mg, Caller{}, id, long[:100*testChunk]))
		require.Equal(t, 96*testChunk, known(t, mg, Caller{}, id, long[:100*testChunk-1]))
		require.Equal(t, 16*testChunk, known(t, mg, Caller{}, id, long[:20*testChunk]+"another"))
		require.Zero(t, known(t, mg, Caller{}, id, "x"+long))
	}
}

func TestKnownPrefixBelongsToOwnerAndSession(t *testing.T) {
	mg := newManager(t, Options{})
	one, two := Caller{Key: "one"}, Caller{Key: "two"}
	text := logText(2 * testChunk)
	oneByte(t, mg, one, "", text)
	require.Equal(t, len(text), known(t, mg, one, "", text))
	require.Zero(t, known(t, mg, two, "", text))
	require.Zero(t, known(t, mg, Caller{}, "", text))

	id, other := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{})
	oneByte(t, mg, Caller{}, id, text)
	require.Equal(t, len(text), known(t, mg, Caller{}, id, text))
	require.Zero(t, known(t, mg, Caller{}, other, text))
	score(t, mg, id, "x")
	require.Zero(t, known(t, mg, Caller{}, id, text), "the session has more text now")
	require.NoError(t, mg.Delete(Caller{}, id))
	for key := range mg.engine.prefixes.mu.kept {
		require.NotEqual(t, id, key.session)
	}
}

// When states need memory, cached prefixes are dropped. States are not dropped for cached prefixes.
func TestKnownPrefixesGoFirst(t *testing.T) {
	m := testModel(t)
	blank := stream.StateBytes(m, stream.DefaultsFor(m, stream.Static))
	state := stream.StateBytes(m, stream.Defaults(m))
	mg := newManager(t, Options{MaxMemoryBytes: 8*blank + 2*state})
	text := logText(testChunk)
	oneByte(t, mg, Caller{}, "", text)
	require.Equal(t, len(text), known(t, mg, Caller{}, "", text))
	used := mg.engine.budget.Used()
	require.Positive(t, used)
	var ids []string
	for mg.engine.budget.Used()+state <= mg.engine.budget.Max() {
		ids = append(ids, create(t, mg, CreateRequest{}))
		score(t, mg, ids[len(ids)-1], "x")
	}
	holders := mg.engine.budget.Holders()
	ids = append(ids, create(t, mg, CreateRequest{}))
	score(t, mg, ids[len(ids)-1], "x")
	require.Empty(t, mg.engine.prefixes.mu.kept)
	require.Equal(t, holders+1, mg.engine.budget.Holders(), "no state had to go")
}

// Sessions are deleted while others read prompts. Afterwards no prefix of a deleted session is
// cached, and only cached prefixes use memory.
func TestKnownPrefixesOfGoneSessionsGo(t *testing.T) {
	m := testModel(t)
	mg := newManager(t, Options{Threads: 2,
		MaxMemoryBytes: 64 * stream.StateBytes(m, stream.Defaults(m))})
	var all sync.WaitGroup
	for i := range 16 {
		id := ""
		if i%2 == 1 {
			id = create(t, mg, CreateRequest{})
		}
		all.Go(func() {
			for key := range 3 {
				if id != "" && key == 1 {
					all.Go(func() { assert.NoError(t, mg.Delete(Caller{}, id)) })
				}
				prompt := []byte(logText((20 + key) * testChunk)[i%5*testChunk:])
				r := BatchRequest{Prompts: [][]byte{prompt}, N: 1, MaxTokens: 1}
				err := mg.CompleteBatch(background, Caller{}, id, r, noPieces)
				assert.True(t, err == nil || id != "" && errors.Is(err, ErrNotFound), "%v", err)
			}
		})
	}
	all.Wait()
	bytes := int64(0)
	for key, kept := range mg.engine.prefixes.mu.kept {
		require.Empty(t, key.session)
		bytes += kept.stream.MemoryBytes()
	}
	require.Positive(t, bytes)
	require.Equal(t, bytes, mg.engine.budget.Used())
}
