package stream

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/weights"
)

func TestMixtureIsScoredReportedAndSampled(t *testing.T) {
	m := upperModel(t)
	w := testWorker(t, m, 1)
	each(t, Methods(), func(t *testing.T, method string) {
		set := settings(m, methodIs(method))
		require.True(t, set.Companion)
		want := scored(w, New(m, set), text)
		told := New(m, set)
		var got []float32
		for rest := []byte(text); len(rest) > 0; {
			rest = rest[w.Read(told, rest, func(token Token) {
				sum := 0.
				for _, l := range token.LogProbs {
					sum += math.Exp(float64(l))
				}
				require.InDelta(t, 1, sum, 1e-6)
				got = append(got, -token.LogProbs[token.ID])
			}):]
		}
		require.Equal(t, want, got)

		again := New(m, set)
		w.Feed(again, []byte(text), nil)
		frozen, first := told.Frozen(), float32(0)
		w.Generate(frozen, sampler(5), func(_ int32, logProb float32) bool {
			first = -logProb
			return false
		})
		var written []byte
		var said []float32
		w.Generate(told, sampler(5), func(id int32, logProb float32) bool {
			written, said = append(written, byte(id)), append(said, -logProb)
			return len(written) < 40
		})
		require.Equal(t, said[0], first)
		require.Equal(t, said, scored(w, again, string(written)))
	})
}

// A completion that repeats a text does not make the text more likely, because counts and cache do
// not learn generated tokens. Feeding the text makes it more likely.
func TestCompletionIsNotLearned(t *testing.T) {
	byBytes, byWords := testModel(t), wordModel(t)
	each(t, Methods(), func(t *testing.T, method string) {
		for _, m := range []*model.Model{byBytes, byWords} {
			w := testWorker(t, m, 1)
			s := New(m, settings(m, methodIs(method)))
			w.Feed(s, []byte(modeltest.WordText(20)), nil)
			repeats := []int32{1, 4, 5, 7, 8, 9, 2, 6, 12, 13, 14, 10}
			cost := func(s *Stream) (early, late float64) {
				in := script{ids: slices.Repeat(repeats, 8)}
				var nll []float32
				w.Generate(s, &in, func(_ int32, logProb float32) bool {
					nll = append(nll, -logProb)
					return len(in.ids) > 0
				})
				for i := range nll[:len(nll)/4] {
					early += float64(nll[i])
					late += float64(nll[len(nll)-1-i])
				}
				return early, late
			}
			frozen := s.Frozen()
			early, late := cost(frozen)
			require.InDelta(t, 1, late/early, .15, "%v", m.OfWords())
			if s.Cache != nil {
				require.LessOrEqual(t, frozen.Cache.Len, s.Cache.Len+len(s.Pending))
			}
			if s.Companion != nil || s.Cache != nil {
				_, learnt := cost(s)
				require.Less(t, learnt, .7*late, "%v", m.OfWords())
			}
		}
	})
}

type script struct{ ids []int32 }

func (d *script) Next([]float32) (id int32) {
	id, d.ids = d.ids[0], d.ids[1:]
	return id
}

// A companion predicts repeated text sooner than the network learns it. The network's own scores
// and fast weights do not depend on the companion.
func TestCompanionKnowsWhatItHasRead(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	again := strings.Repeat(text, 4)
	each(t, Methods(), func(t *testing.T, method string) {
		with := New(m, settings(m, func(s *Settings) {
			s.Method, s.CompanionStatic = method,
				false
		}))
		without := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = method, false }))
		w.Feed(with, []byte(again), nil)
		w.Feed(without, []byte(again), nil)
		require.Less(t, with.Tally.Bits, 0.8*without.Tally.Bits)
		requireNetworkBits(t, w, with, without)
		require.Equal(t, without.FastRMS(), with.FastRMS())
		require.Equal(t, companion.Bytes(with.Settings.companion()),
			with.MemoryBytes()-without.MemoryBytes())
		require.Equal(t, with.MemoryBytes(), StateBytes(m, with.Settings))
	})
}

// requireNetworkBits checks that the network's scores for the next text are bit-identical with and
// without a companion.
func requireNetworkBits(t *testing.T, w *Worker, with, without *Stream) {
	t.Helper()
	const next = "and on it goes "
	network := slices.Clone(w.Score(with, []byte(next)).Network)
	alone := w.Score(without, []byte(next))
	require.Nil(t, alone.Network)
	require.Equal(t, alone.NLL, network)
}

// goldenCompanion maps the name of the arithmetic to the hashes of two streams with a companion,
// after a constant text. The companion mixes one network in the first stream, and two in the
// second. If a hash changes, existing sessions no longer continue bit-identically.
var goldenCompanion = map[string][2]string{
	"float32": {
		"edad72a23162698b078d46ce06c5e7867b22c39ad4e37d9579e10ddb11982001",
		"d397ed9ca6a848d87e2a44f2883b6e7d50b035cbc98784cccba55e8f01334402",
	},
	"float32-fma": {
		"89ee76b391bb5a389c560c83e31bb7f72cec24cfbac6300852403cd4795ee80b",
		"32632c6ff1a6b9c367928ea3b36477082f9c3dbca78eba091a0cfa68b8d3ffa5",
	},
}

func TestGoldenStateWithACompanion(t *testing.T) {
	m := testModel(t)
	for networks, want := range goldenCompanion[kernel.Arithmetic{}.Numerics()] {
		for _, threads := range []int{1, 3} {
			w := testWorker(t, m, threads)
			s := New(m, settings(m, func(s *Settings) {
				s.Method, s.CompanionStatic = SparseMeta, networks > 0
				s.CompanionBytes = 1 << 20
			}))
			w.Feed(s, []byte(text), nil)
			require.Equal(t, want, s.Hash())
		}
	}
}

func TestUncommittedScoreIsForgotten(t *testing.T) {
	m := testModel(t)
	w, other := testWorker(t, m, 1), testWorker(t, m, 1)
	set := settings(m, methodIs(SparseMeta))
	s, beside := New(m, set), New(m, set)
	w.Feed(s, []byte(text[:20]), nil)
	before := s.Hash()
	w.Score(s, []byte("something else"))
	other.Score(s, []byte("and more"))
	require.Equal(t, before, s.Hash())
	w.Feed(beside, []byte("another stream's text"), nil)
	want := New(m, set)
	w.Feed(want, []byte(text), nil)
	other.Feed(s, []byte(text[20:]), nil)
	require.Equal(t, want.Hash(), s.Hash())
}

func TestSnapshotWithoutItsCompanionIsRefused(t *testing.T) {
	m := testModel(t)
	w := testWorker(t, m, 1)
	set := settings(m, methodIs(Static))
	s := New(m, set)
	w.Feed(s, []byte(text[:21]), nil)
	shorter := New(m, set)
	w.Feed(shorter, []byte(text[:20]), nil)
	for says, spoil := range map[string]func(tensor *weights.Tensor){
		`tensor "companion" is missing`: func(tensor *weights.Tensor) { tensor.Name = "other" },
		"companion: the state has": func(tensor *weights.Tensor) {
			tensor.Data, tensor.Shape = tensor.Data[1:], []int{len(tensor.Data) - 1}
		},
		"is of version 7": func(tensor *weights.Tensor) { tensor.Data[0] = 7 },
		"has read 20 bytes, expected 21": func(tensor *weights.Tensor) {
			copy(tensor.Data, shorter.Companion.AppendTo(nil))
		},
	} {
		f, err := s.Snapshot()
		require.NoError(t, err)
		for i := range f.Tensors {
			if f.Tensors[i].Name == tensorCompanion {
				spoil(&f.Tensors[i])
			}
		}
		_, _, err = Restore(m, set, f.Stored())
		require.ErrorContains(t, err, says)
	}
}

func TestSettingsOfACompanionAreChecked(t *testing.T) {
	m := testModel(t)
	set, err := With(m, setting.Values{"companion_bytes": 1 << 17})
	require.NoError(t, err)
	require.Equal(t, 1<<17, New(m, set).Companion.Settings().TableBytes)
	_, err = With(m, setting.Values{"companion_bytes": 100_000})
	require.ErrorContains(t, err, "a power of two from 65536 to 67108864")
}

func TestCompanionOfWordsIsCache(t *testing.T) {
	m := wordModel(t)
	text := []byte(strings.Repeat("the cat sat on a mat , and the dog\n", 30))
	for _, method := range []string{Static, SparseMeta, DynamicSGD} {
		w := testWorker(t, m, 1)
		with := New(m, settings(m, methodIs(method)))
		require.Nil(t, with.Companion)
		without := New(m, settings(m, func(s *Settings) { s.Method, s.Companion = method, false }))
		require.Nil(t, without.Cache)
		w.Feed(with, text, nil)
		w.Feed(without, text, nil)
		require.Less(t, with.Tally.Bits, without.Tally.Bits, method)
		requireNetworkBits(t, w, with, without)
		require.Equal(t, without.FastRMS(), with.FastRMS())
		require.Equal(t, with.Cache.Bytes(), with.MemoryBytes()-without.MemoryBytes())
		require.Equal(t, with.MemoryBytes(), StateBytes(m, with.Settings))
		f, err := with.Snapshot()
		require.NoError(t, err)
		back, _, err := Restore(m, with.Settings, f.Stored())
		require.NoError(t, err)
		require.Equal(t, with.Hash(), back.Hash())
		w.Feed(with, text, nil)
		testWorker(t, m, 2).Feed(back, text, nil)
		require.Equal(t, with.Hash(), back.Hash())
	}
}
