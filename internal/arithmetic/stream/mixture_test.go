package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/weights"
)

// mixtureModel returns a copy of the model whose fast weights learn from the mixture's loss.
// Parameter share is the weight of this loss.
func mixtureModel(t testing.TB, m *model.Model, share float32) *model.Model {
	c := *m
	c.Mixture = share
	made, err := model.FromFile(c.File())
	require.NoError(t, err)
	return made
}

// With a companion and a positive Mixture, fast weights learn from the mixture's loss; otherwise
// from the network's own loss. A tiny Mixture changes the costs only slightly.
func TestFastWeightsLearnFromMixture(t *testing.T) {
	own := testModel(t)
	each(t, gradientMethods, func(t *testing.T, method string) {
		learnt := func(m *model.Model, companion bool) (*Stream, []float32) {
			s := New(m, settings(m, func(s *Settings) {
				s.Method, s.Companion = method,
					companion
			}))
			w := testWorker(t, m, 1)
			nll := scored(w, s, text)
			return s, nll
		}
		usual, costs := learnt(own, true)
		for _, share := range []float32{0.3, 1} {
			s, got := learnt(mixtureModel(t, own, share), true)
			require.Equal(t, costs[:testChunk], got[:testChunk], "before the first update")
			require.NotEqual(t, costs[testChunk:2*testChunk], got[testChunk:2*testChunk])
			require.Equal(t, StateBytes(s.model, s.Settings), s.MemoryBytes())
			require.EqualValues(t, 4*slopesOfByte*testChunk, s.MemoryBytes()-usual.MemoryBytes())

			s, _ = learnt(mixtureModel(t, own, share), false)
			alone, _ := learnt(own, false)
			require.Equal(t, alone.Hash(), s.Hash(), "without a companion")
		}
		if method == DynamicSGD { // updates of the other methods are not continuous
			_, got := learnt(mixtureModel(t, own, 1e-6), true)
			require.InDeltaSlice(t, costs, got, 1e-3)
		}
	})
	m := mixtureModel(t, own, 1)
	for _, method := range []string{Static, Cache} {
		require.Nil(t, New(m, settings(m, methodIs(method))).slopes, method)
	}
}

func TestByLinesTheFastWeightsLearnFromTheMixture(t *testing.T) {
	for _, method := range gradientMethods {
		w, s := heldStream(t, method)
		defer w.Close()
		m := mixtureModel(t, s.model, 0.8)
		mixed := testWorker(t, m, 1)
		set := DefaultsFor(m, method)
		set.Seed = 3
		byLine, usual, skips := New(m, set), New(m, set), New(m, set)
		text := line(chunk, "a") + line(chunk/2, "b") + line(chunk/2, "c") + line(chunk, "a")
		feedAs(mixed, byLine, text, Lesson{ByLine: true})
		feedAs(mixed, usual, text, Lesson{})
		require.Equal(t, usual.FastRMS(), byLine.FastRMS())
		require.NotZero(t, usual.FastRMS())
		feedAs(w, s, text, Lesson{})
		require.NotEqual(t, s.FastRMS(), usual.FastRMS())
		feedAs(mixed, skips, text, Lesson{ByLine: true, Skipped: []uint16{0, 1, 2, 3}})
		require.Zero(t, skips.FastRMS())
	}
}

func TestSnapshotWithoutItsSlopesIsRefused(t *testing.T) {
	m := mixtureModel(t, testModel(t), 0.5)
	w := testWorker(t, m, 1)
	s := New(m, settings(m, methodIs(SparseMeta)))
	w.Feed(s, []byte(text[:21]), nil)
	for says, spoil := range map[string]func(*weights.Tensor){
		`tensor "companion.slopes" is missing, expected it with type and shape F32[5 8]`: func(
			x *weights.Tensor) {
			x.Name = "x"
		},
		`tensor "companion.slopes" has type and shape F32[8 5], expected`: func(x *weights.Tensor) {
			x.Shape = []int{8, 5}
		},
		`tensor "companion.slopes", element 0 is NaN`: func(x *weights.Tensor) {
			*x =
				notANumber(*x)
		},
	} {
		f, err := s.Snapshot()
		require.NoError(t, err)
		for i := range f.Tensors {
			if f.Tensors[i].Name == "companion.slopes" {
				spoil(&f.Tensors[i])
			}
		}
		_, _, err = Restore(m, s.Settings, f.Stored())
		require.ErrorContains(t, err, says)
	}
}
