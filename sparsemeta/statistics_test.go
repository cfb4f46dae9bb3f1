package sparsemeta

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A decoded value differs by at most 9.1 %, half a step of 1/4 octave. This holds down to 2^-63 of
// the branch's largest value. Smaller values stay small, and 0 stays 0.
func TestCodesAreCloseToTheRootMeanSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		branches := []Branch{{"a", 7}, {"b", 1}, {"c", 40}}
		rms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
			if rapid.IntRange(0, 9).Draw(t, "zero") == 0 {
				return 0
			}
			return float32(math.Exp2(rapid.Float64Range(-140, 127).Draw(t, "octave")))
		}), 48, 48).Draw(t, "rms")
		s, err := NewStatistics(branches, rms)
		require.NoError(t, err)
		require.NoError(t, s.Validate())
		at := 0
		for i, b := range branches {
			values := s.values(i)
			largest := 0.
			for _, v := range rms[at : at+b.Size] {
				largest = max(largest, float64(v))
			}
			require.Equal(t, largest, values[codeMost])
			for k, v := range rms[at : at+b.Size] {
				found, want := values[s.Codes[at+k]], float64(v)
				switch {
				case want == 0:
					require.Zero(t, found)
				case want >= largest*math.Exp2(-254./codeOctave):
					require.InEpsilon(t, want, found, 0.0906)
				default:
					require.Equal(t, uint8(1), s.Codes[at+k])
				}
			}
			at += b.Size
		}
	})
}

func TestStatisticsThatCannotBeAreRefused(t *testing.T) {
	branches := []Branch{{"a", 2}, {"b", 1}}
	for want, rms := range map[string][]float32{
		"found 2 root":     {1, 2},
		"a: element 1":     {1, -1, 1},
		"b: element 0":     {1, 1, float32(math.NaN())},
		"found +Inf, want": {1, 1, float32(math.Inf(1))},
	} {
		_, err := NewStatistics(branches, rms)
		require.ErrorContains(t, err, want)
	}
	for want, spoil := range map[string]func(*Statistics){
		"found 2 codes":    func(s *Statistics) { s.Codes = s.Codes[:2] },
		"and 1 scales":     func(s *Statistics) { s.Scales = s.Scales[:1] },
		"b: scale":         func(s *Statistics) { s.Scales[1] = float32(math.NaN()) },
		"a: scale":         func(s *Statistics) { s.Scales[0] = -1 },
		"b: element 0":     func(s *Statistics) { s.Scales[1] = 0 },
		"code 251, want 0": func(s *Statistics) { s.Scales[0] = 0 },
	} {
		s, err := NewStatistics(branches, []float32{1, 2, 3})
		require.NoError(t, err)
		spoil(s)
		require.ErrorContains(t, s.Validate(), want)
	}
}

// Gradients far above the floor are scaled to Level. An element or branch without gradients gets a
// finite factor.
func TestNormalizeBringsGradientsToOneSize(t *testing.T) {
	branches := []Branch{{"a", 3}, {"quiet", 2}, {"b", 2}}
	s, err := NewStatistics(branches, []float32{64, 2, 0, 0, 0, 1, 1})
	require.NoError(t, err)
	l := &Learner{Branches: []Branch{{"b", 2}, {"a", 3}, {"quiet", 2}}}
	require.NoError(t, l.Normalize(Normal{Level: 0.5, Floor: 0.25}, s))
	mean := 22.
	want := []float32{
		0.5 / (1 + 0.25), 0.5 / (1 + 0.25),
		float32(0.5 / (64 + 0.25*mean)), float32(0.5 / (2 + 0.25*mean)),
		float32(0.5 / (0.25 * mean)),
		1, 1,
	}
	require.InDeltaSlice(t, want, l.Scale, 1e-6)
	require.Equal(t, &Normal{Level: 0.5, Floor: 0.25}, l.Normal)
	l.Settings = TwoBankSettings()
	l.Init(InitHe(), 1)
	require.NoError(t, l.Validate())

	small := &Learner{Branches: []Branch{{"b", 3}}}
	require.ErrorContains(t, small.Normalize(DefaultNormal(), s), "found no statistics of the "+
		"gradients of b (3 elements)")
	require.Nil(t, small.Scale)
	for field, bad := range map[string]Normal{
		"level: found 0": {Floor: 1}, "level: found +Inf": {Level: float32(math.Inf(1)), Floor: 1},
		"floor: found -1": {Level: 1, Floor: -1}, "floor: found NaN": {Level: 1,
			Floor: float32(math.NaN())},
	} {
		require.ErrorContains(t, l.Normalize(bad, s), field)
	}
}
