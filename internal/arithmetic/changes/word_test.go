package changes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestStampsAreFound(t *testing.T) {
	const at = (12*3600 + 34*60 + 56) * 1000
	for line, want := range map[string]stamp{
		"":                    {},
		"no stamp 12:34":      {},
		"12:34:56":            {at, 0, 8, 0},
		"a 12:34:56.7 b":      {at + 700, 0, 12, 2},
		"x=\"12:34:56,789Z\"": {at + 789, 3, 16, 3},
		"12:34:56+01:00 x":    {at, 0, 14, 0},
		"12:34:56 -0100":      {at, 0, 14, 0},
		"12:34:56 -01:0":      {at, 0, 8, 0},
		"12:34:56 -01":        {at, 0, 8, 0},
		`10.0.0.1 - - [20/Nov/2026:12:34:56 +0000] "GET"`: {at, 14, 40, 26},
		"2026-11-20T12:34:56.123456Z info":                {at + 123, 0, 27, 11},
		"at: b:12:34:56":                                  {at, 0, 14, 6},
		"a:b ::: 12:34:5":                                 {},
		"99:99:99 123:34:56 12:60:00":                     {},
		"23:59:60":                                        {0, 0, 8, 0},
		"11/20/2026 12:34:56 PM x":                        {at, 0, 22, 11},
		"12:34:56.5am: x":                                 {at - 12*3600_000 + 500, 0, 12, 0},
		"[11/20/26 3:34:56 pm +0100]":                     {at + 3*3600_000, 1, 26, 10},
		"1:34:56 AM":                                      {at - 11*3600_000, 0, 10, 0},
		"12:34:56 amber":                                  {at, 0, 8, 0},
		"13:34:56 PM":                                     {at + 3600_000, 0, 8, 0},
		"took 1:34:56":                                    {},

		"1700000000 x":      {1_700_000_000_000 % dayMillis, 0, 10, 0},
		"1700000000.25 x":   {1_700_000_000_250 % dayMillis, 0, 13, 0},
		"1700000000123 x":   {1700000000123 % dayMillis, 0, 13, 0},
		"17000000001 x":     {},
		"170000000012345 x": {},
		"2700000000 x":      {},
	} {
		require.Equal(t, want, stampOf([]byte(line)), line)
	}
}

func TestClockPassesMidnightAndIsSetBack(t *testing.T) {
	var c clock
	for i, s := range []struct{ stamp, time int64 }{
		{86_390_000, 0}, {86_399_000, 9_000}, {2_000, 12_000}, {1_000, 12_000}, {3_500, 13_500},
		{1_003_500, 1_013_500}, {500_000, 1_013_500}, {500_250, 1_013_750},
	} {
		c.stamp(s.stamp)
		require.Equal(t, s.time, c.Time, "stamp %d", i)
	}
	require.EqualValues(t, 8, c.Stamped)
	require.EqualValues(t, 1, c.Fine)
}

func TestLinesAreCutIntoWords(t *testing.T) {
	type cut struct {
		text  string
		form  form
		value float64
	}
	for line, want := range map[string][]cut{
		"":                 nil,
		" -- ":             nil,
		"GET /a_b v2":      {{"GET", plain, 0}, {"a_b", plain, 0}, {"v2", plain, 0}},
		"10.1.2.3 port 80": {{"10.1.2.3", address, 0}, {"port", plain, 0}, {"80", number, 80}},
		"1.2.3 1.2.3.4.5":  {{"1.2.3", random, 0}, {"1.2.3.4.5", random, 0}},
		"rt=0.250 5ms 3s": {
			{"rt", plain, 0}, {"0.250", number, .25}, {"5ms", number, .005}, {"3s", number, 3},
		},
		"7us 7µs 2ns 1.5x": {
			{"7us", number, 7e-6}, {"7µs", number, 7e-6}, {"2ns", number, 2e-9},
			{"1.5x", random, 0},
		},
		"a1b2c3 1234567890": {{"a1b2c3", random, 0}, {"1234567890", random, 0}},
		"node123 node12345": {{"node123", plain, 0}, {"node12345", random, 0}},
		"7:05 é":            {{"7", random, 0}, {"05", random, 0}, {"é", plain, 0}},
		"5. 6":              {{"5", number, 5}, {"6", number, 6}},
	} {
		var got []cut
		c := cutter{line: []byte(line)}
		for w := (word{}); c.next(&w); {
			got = append(got, cut{line[w.from:w.to], w.form, w.value})
		}
		require.Equal(t, want, got, line)
	}
}

func TestWordsOfLineComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.StringMatching(`([a-zé_0-9.: =µ]|12:00:0[0-9] |[0-9]{1,12}(ms)?)*`)
		line := []byte(lines.Draw(t, "line"))
		c := cutter{line: line, stamp: stampOf(line)}
		last := 0
		for w := (word{}); c.next(&w); last = w.to {
			require.True(t, last <= w.from && w.from < w.to && w.to <= len(line))
			require.True(t, w.value >= 0 && w.value < 1e18)
			if c.stamp.to > 0 {
				require.True(t, w.from < c.stamp.from || w.from >= c.stamp.to, "%q",
					line[w.from:w.to])
			}
		}
	})
}

func TestLogarithmsAreNearlyExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-9, 1e20).Draw(t, "x")
		require.InDelta(t, math.Log2(x), lg(x), .01)
		require.InDelta(t, math.Log(x), ln(x), .007)
	})
	require.Equal(t, 6., lg(64))
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-60, 60).Draw(t, "x")
		require.InEpsilon(t, math.Exp2(x), pow2(x), .004)
	})
}
