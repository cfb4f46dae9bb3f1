package companion

import (
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

func TestByteCostsWhatDistributionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.IntRange(1, networksMax).Draw(t, "networks")
		text := drawText(t, 600)
		r := reader{New(small(networks)), widest(), someNetworks(networks, 7), 0}
		for i, b := range text {
			of := r.of[i%len(r.of)]
			if rapid.IntRange(0, 20).Draw(t, "certain") == 0 {
				of[0] = certain(byte(i))
			}
			r.x.Begin(r.s)
			if i%17 == 0 {
				var logProbs [256]float32
				r.x.Distribution(r.s, of, logProbs[:])
				require.InDelta(t, 1, sumOf(logProbs[:]), 1e-6)
				require.Equal(t, -logProbs[b], r.x.Score(r.s, of, b))
			} else {
				r.x.Score(r.s, of, b)
			}
		}
	})
}

func TestDistributionChangesNothing(t *testing.T) {
	r := reader{New(small(1)), widest(), someNetworks(1, 3), 0}
	r.feed(prose(5000, 1))
	before := r.s.Clone()
	var logProbs [256]float32
	r.x.Distribution(r.s, r.of[0], logProbs[:])
	requireSame(t, before, r.s)
}

// Pass appends text that the companion does not learn. The counts do not change, no match predicts
// a byte of that text, and Back restores the earlier state.
func TestCompanionSkipsPassedText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := reader{New(small(1)), widest(), someNetworks(1, 3), 0}
		learnt := drawText(t, 1500)
		r.feed(learnt)
		before := r.s.Clone()
		again := rapid.IntRange(0, len(learnt)).Draw(t, "again")
		passed := append(append(drawText(t, 100), learnt[again:]...), learnt[again:]...)
		r.x.Begin(r.s)
		for i, b := range passed {
			if i%23 == 0 {
				var logProbs [256]float32
				r.x.Distribution(r.s, r.of[i%len(r.of)], logProbs[:])
				require.InDelta(t, 1, sumOf(logProbs[:]), 1e-6)
			}
			r.x.Pass(r.s, b, uint64(i))
			for _, m := range r.s.place.Matches {
				if m.At >= uint32(len(learnt)) {
					require.Failf(t, "a match goes on", "at %d of %d learnt", m.At, len(learnt))
				}
			}
		}
		require.EqualValues(t, len(learnt)+len(passed), r.s.Length())
		require.True(t, slices.Equal(before.table, r.s.table))
		require.True(t, slices.Equal(before.words, r.s.words))
		require.True(t, slices.Equal(before.floats, r.s.floats))
		require.Equal(t, passed[len(passed)-1], r.s.at(uint32(r.s.Length()-1)))
		r.x.Back(r.s)
		requireSame(t, before, r.s)
	})
}

// A match also predicts text that is passed without learning, if this text repeats learned text.
func TestMatchGoesAlongWhatIsPassed(t *testing.T) {
	r := reader{New(small(1)), widest(), uniform(), 0}
	text := randomBytes(4000, 1)
	r.feed(text)
	r.feed(text[:1000]) // teaches the state that text can repeat
	r.x.Begin(r.s)
	cost := 0.
	for i, b := range text[2000:2400] {
		var logProbs [256]float32
		r.x.Distribution(r.s, r.of[0], logProbs[:])
		if cost -= float64(logProbs[b]); i == 40 {
			cost = 0
		}
		r.x.Pass(r.s, b, uint64(i))
	}
	require.Less(t, cost/math.Ln2/359, 2.)
}

func TestPiecesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t, 3000)
		whole := reader{New(small(1)), widest(), someNetworks(1, 5), 0}
		want := whole.feed(text)
		pieces := reader{New(small(1)), widest(), whole.of, 0}
		var got []float32
		for len(text) > 0 {
			n := rapid.IntRange(1, len(text)).Draw(t, "piece")
			if n < 400 && rapid.Bool().Draw(t, "forget") {
				before := pieces.s.Clone()
				pieces.feed(text[:n])
				pieces.x.Back(pieces.s)
				requireSame(t, before, pieces.s)
				pieces.at -= n
			}
			got = append(got, pieces.feed(text[:n])...)
			after := pieces.s.Clone()
			pieces.x.Back(pieces.s)
			pieces.x.Forth(pieces.s)
			requireSame(t, after, pieces.s)
			text = text[n:]
		}
		require.Equal(t, want, got)
		requireSame(t, whole.s, pieces.s)
	})
}

// Results are bit-identical with all instruction sets, on every machine and in every version. The
// expected hash covers the cost of each byte and the final state.
func TestBitsAreSameEverywhere(t *testing.T) {
	want := map[int]uint64{1: 0xd20c834751e40114, 2: 0x0d1d8f41159dcea8}
	for networks := range want {
		eachSet(t, func(t *testing.T, v kernel.Vectors) {
			r := reader{New(small(networks)), NewScratch(v), someNetworks(networks, 11), 0}
			h := fnv.New64a()
			for _, nll := range r.feed(append(prose(20000, 3), records(20000, 3)...)) {
				bits := math.Float32bits(nll)
				h.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
			}
			h.Write(r.s.AppendTo(nil))
			require.Equal(t, want[networks], h.Sum64(), "%#x", h.Sum64())
		})
	}
}

func TestTextOfCloneIsIndependent(t *testing.T) {
	r := reader{New(small(2)), widest(), someNetworks(2, 5), 0}
	r.feed(prose(3000, 1))
	clone := reader{r.s.Clone(), widest(), r.of, r.at}
	before := r.s.Clone()
	other := clone.feed(records(500, 2))
	requireSame(t, before, r.s)
	again := reader{before, widest(), r.of, r.at}
	r.feed(prose(500, 9))
	require.Equal(t, other, again.feed(records(500, 2)))
	requireSame(t, again.s, clone.s)
}

func TestResetIsANewState(t *testing.T) {
	r := reader{New(small(1)), widest(), someNetworks(1, 5), 0}
	r.feed(prose(70000, 1))
	r.s.Reset()
	requireSame(t, New(small(1)), r.s)
}

func TestRepeatedTextCostsAlmostNothing(t *testing.T) {
	r := reader{New(Settings{TableBytesDefault, 1}), widest(), uniform(), 0}
	first := bitsOf(r.feed(randomBytes(20000, 1)))
	require.InDelta(t, 8*20000, first, 160)
	again := bitsOf(r.feed(randomBytes(20000, 1)))
	require.Less(t, again, 0.02*first)

	whole := reader{New(Settings{TableBytesDefault, 2}), widest(), uniform(), 0}
	require.Less(t, bitsOf(whole.feed(records(20000, 1))), 0.3*20000)
}

// The mixture follows a network that predicts well. If a network is certain of wrong bytes, the
// cost of the text is still bounded.
func TestAccurateNetworkIsTrusted(t *testing.T) {
	text := randomBytes(4000, 2)
	s, x := New(small(1)), widest()
	x.Begin(s)
	late := 0.
	for i, b := range text {
		nll := x.Score(s, Networks{certain(b)}, b)
		if i >= 2000 {
			late += float64(nll) / math.Ln2
		}
	}
	require.Less(t, late/2000, 0.02)
	require.Less(t, float64(x.Score(s, Networks{certain(1)}, 2)), 8*math.Log(1<<20)+0.01)
}

func TestNothingIsAllocatedForAByte(t *testing.T) {
	r := reader{New(small(1)), widest(), someNetworks(1, 5), 0}
	text, logProbs := prose(128, 1), make([]float32, 256)
	piece := func() {
		r.x.Begin(r.s)
		for i, b := range text {
			r.x.Score(r.s, r.of[i%len(r.of)], b)
		}
		r.x.Back(r.s)
		r.x.Forth(r.s)
		r.x.Distribution(r.s, r.of[0], logProbs)
	}
	for range 20 {
		piece() // grows the journals to their final size
	}
	require.Zero(t, testing.AllocsPerRun(10, piece))
}

func TestSettingsSayWhatIsWrong(t *testing.T) {
	require.NoError(t, Settings{TableBytesDefault, 1}.Validate())
	require.EqualError(t, Settings{3 << 16, 1}.Validate(),
		"companion: the table has 196608 bytes, expected a power of two from 65536 to 67108864")
	require.Error(t, Settings{TableBytesMin / 2, 1}.Validate())
	require.Error(t, Settings{TableBytesMax * 2, 1}.Validate())
	require.EqualError(t, Settings{TableBytesMin, 3}.Validate(),
		"companion: the number of networks is 3, expected 1 to 2")
}

func TestBytesAreThoseOfTheState(t *testing.T) {
	s := New(small(1))
	require.Equal(t, int64(len(s.table)+len(s.text)+4*len(s.words)+4*len(s.floats)),
		Bytes(small(1)))
	require.EqualValues(t, EncodedBytes(small(1)), len(s.AppendTo(nil)))
}
