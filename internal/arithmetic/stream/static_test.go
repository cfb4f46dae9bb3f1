package stream

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/weights"
)

// The scores must be bit-identical to the scores of a companion that mixes two separate streams,
// one adaptive and one static.
func TestCompanionMixesInStaticModel(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 2)
	both := scored(w, New(m, settings(m, nil)), text)

	told := func(method string) (all [][]float32) {
		s := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = method, false }))
		for rest := []byte(text); len(rest) > 0; {
			rest = rest[w.Read(s, rest, func(t Token) {
				all = append(all, append([]float32(nil), t.LogProbs...))
			}):]
		}
		return all
	}
	adapted, static := told(SparseMeta), told(Static)
	require.NotEqual(t, static[2*testChunk], adapted[2*testChunk])
	state := companion.New(companion.Settings{TableBytes: companion.TableBytesDefault, Networks: 2})
	counts := companion.NewScratch(w.Exec.Vectors)
	for i := range text {
		counts.Begin(state)
		of := companion.Networks{adapted[i], static[i]}
		require.Equal(t, counts.Score(state, of, text[i]), both[i], "byte %d", i)
	}
}

// Only SparseMeta mixes in the static model. The stream then also stores the static model's memory,
// for the layers whose inputs differ.
func TestStaticModelIsMixedInBesideMetaLearners(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	layer := int64(4 * m.LM.Config.MemLen * m.LM.Config.DModel)
	for method, layers := range map[string]int64{Static: 0, SparseMeta: 1, DynamicSGD: 0,
		Cache: 0} {
		with := New(m, settings(m, methodIs(method)))
		without := New(m, settings(m, func(s *Settings) {
			s.Method, s.CompanionStatic = method,
				false
		}))
		w.Feed(with, []byte(text), nil)
		w.Feed(without, []byte(text), nil)
		require.Equal(t, layers > 0, with.Hash() != without.Hash(), method)
		require.Equal(t, layers*layer, with.MemoryBytes()-without.MemoryBytes(), method)
		require.Equal(t, with.MemoryBytes(), StateBytes(m, with.Settings), method)
	}
	measured := New(m, settings(m, func(s *Settings) { s.Baseline = true }))
	require.Equal(t, measured.MemoryBytes(), New(m, settings(m, nil)).MemoryBytes(),
		"the baseline is scored by what is there")
	alone := New(m, settings(m, func(s *Settings) { s.Companion = false }))
	require.Nil(t, alone.StaticMemory)
}

// Early snapshots store the memory of the lower layers twice: for the adaptive and for the static
// model. Restore requires both copies to be equal.
func TestSnapshotWithWholeMemoryOfBaselineIsRead(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	set := settings(m, func(s *Settings) { s.Companion, s.Baseline = false, true })
	s := New(m, set)
	w.Feed(s, []byte(text[:53]), nil)
	before := func() *weights.File {
		f, err := s.Snapshot()
		require.NoError(t, err)
		for l := range 2 {
			shared, ok := f.Tensor(prefixMemory + strconv.Itoa(l))
			require.True(t, ok)
			again := *shared
			again.Name = prefixStatic + strconv.Itoa(l)
			again.Data = append([]byte(nil), shared.Data...)
			_, had := f.Tensor(again.Name)
			require.False(t, had)
			f.Tensors = append(f.Tensors, again)
		}
		return f
	}
	back, _, err := Restore(m, set, before().Stored())
	require.NoError(t, err)
	require.Equal(t, s.Hash(), back.Hash())
	require.Equal(t, s.MemoryBytes(), back.MemoryBytes())
	require.Equal(t, scored(w, s, text), scored(w, back, text))

	f := before()
	last := &f.Tensors[len(f.Tensors)-1]
	last.Data[0] ^= 1
	_, _, err = Restore(m, set, f.Stored())
	require.ErrorContains(t, err, `tensor "baseline.memory.1" differs from tensor "memory.1"`)
	f.Tensors = f.Tensors[:len(f.Tensors)-1]
	_, _, err = Restore(m, set, f.Stored())
	require.ErrorContains(t, err, `tensor "baseline.memory.1" is missing`)
}
