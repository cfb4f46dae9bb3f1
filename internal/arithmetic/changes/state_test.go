package changes

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func busyLog(n int, seed uint64) [][]byte {
	return accessLog{
		status: func(i int, usual string) string {
			if i%700 > 640 {
				return "502"
			}
			return usual
		},
		took: func(i int, usual float64) float64 {
			if i%900 == 899 {
				return usual * 1000
			}
			return usual
		},
		between: func(i int, stamp string) []string {
			if i%30 == 1 && i < 2*n/3 {
				return []string{stamp + " probe[81]: heartbeat ok"}
			}
			return nil
		},
	}.lines(n, seed)
}

func TestRestoredDetectorContinuesToSameBits(t *testing.T) {
	kinds := map[Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		log := busyLog(1500, rapid.Uint64().Draw(t, "seed"))
		at := rapid.IntRange(0, len(log)).Draw(t, "at")
		d := New()
		take(d, log[:at])
		restored, err := ReadState(d.AppendState(nil))
		require.NoError(t, err)
		require.Equal(t, d, restored)
		told := take(d, log[at:])
		require.Equal(t, told, take(restored, log[at:]))
		require.True(t, bytes.Equal(d.AppendState(nil), restored.AppendState(nil)))
		for _, c := range told {
			kinds[c.Kind]++
		}
	})
	for _, k := range []Kind{Surge, Number, Silence} {
		require.NotZero(t, kinds[k], "%v among what is told after a restart", k)
	}
}

func TestStateOfAnotherLengthIsRefused(t *testing.T) {
	state := New().AppendState(nil)
	for _, n := range []int{0, 1, 2, 100, len(state) - 1} {
		_, err := ReadState(state[:n])
		require.ErrorIs(t, err, ErrState, "%d bytes", n)
	}
	_, err := ReadState(append(state, 0))
	require.ErrorIs(t, err, ErrState)
	state[0]++
	_, err = ReadState(state)
	require.ErrorIs(t, err, ErrState)
}

func TestNumbersThatNoDetectorHasAreRefused(t *testing.T) {
	d := New()
	take(d, busyLog(1200, 12))
	var e *key
	var p *place
	var x *text
	var drifting *drift
	var named *field
	for i := range d.fields {
		if d.fields[i].Tag != 0 {
			named = &d.fields[i]
		}
	}
	for i := range d.drifts {
		if d.drifts[i].Tag != 0 && !d.drifts[i].numbers() {
			drifting = &d.drifts[i]
		}
	}
	for i := range d.keys {
		if d.keys[i].Tag != 0 {
			e = &d.keys[i]
		}
	}
	for i := range d.places[:placesMost] {
		if d.places[i].Tag != 0 {
			p = &d.places[i]
		}
	}
	for i := range d.texts {
		if d.texts[i].Tag != 0 {
			x = &d.texts[i]
		}
	}
	require.NotNil(t, x)
	good := d.AppendState(nil)
	nan := float32(math.NaN())
	for name, spoil := range map[string]func(){
		"lines":            func() { d.n = -1 },
		"time":             func() { d.clock.Time = -1 },
		"day":              func() { d.clock.Day = dayMillis },
		"stamped":          func() { d.clock.Stamped = d.n + 1 },
		"fine":             func() { d.clock.Fine = 2 },
		"stamps":           func() { d.clock.Stamps = 3 },
		"start":            func() { d.clock.Start = d.clock.Time + 1 },
		"pace":             func() { d.clock.Pace = math.NaN() },
		"longest line gap": func() { d.clock.Longest = -1 },
		"surges":           func() { d.surges.Threshold = 3 },
		"numbers":          func() { d.numbers.Threshold = math.Inf(1) },
		"due":              func() { d.due = -1 },
		"quiet":            func() { d.surgeQuiet = d.n + 65 },
		"quiet numbers":    func() { d.numberQuiet = -1 },
		"silence told":     func() { d.silenceTold = d.n + 1 },
		"tag":              func() { e.Tag ^= 1 },
		"set":              func() { e.Tag += 2 },
		"line":             func() { e.Line = uint32(d.n) + 1 },
		"began":            func() { e.Began = uint32(d.n) + 1 },
		"length":           func() { e.Length, e.Clock = 7, 7 },
		"before":           func() { e.Before = nan },
		"sum":              func() { e.Sum = 101 },
		"mean":             func() { e.Mean = float32(math.Inf(1)) },
		"deviation":        func() { e.Deviation = -1 },
		"longest":          func() { e.Longest = nan },
		"peak":             func() { e.Peak = math.MaxUint16 },
		"best":             func() { e.Best = math.MaxUint16 },
		"flags":            func() { e.Flags = flagsMost + 1 },
		"subject":          func() { e.Subject = 0 },
		"place's tag":      func() { p.Tag += 6 },
		"free place":       func() { p.Tag = 0 },
		"ticks":            func() { p.N = 0 },
		"raised":           func() { p.Raised = uint32(d.n) + 1 },
		"told":             func() { p.Told = uint32(d.n) + 1 },
		"first":            func() { p.First = 61 },
		"second":           func() { p.Second = p.First + 1 },
		"same":             func() { p.Repeats[1].Same = 1.5 },
		"expected":         func() { p.Repeats[0].Expected = nan },
		"level":            func() { p.Level = 65 },
		"largest":          func() { p.Largest = -1 },
		"largest before":   func() { p.Before = nan },
		"place's mean":     func() { p.Mean = -65 },
		"place's spread":   func() { p.Deviation = -1 },
		"values":           func() { p.Values = 2 * valuesWindow },
		"credit":           func() { p.Credit = creditMost + 1 },
		"text's tag":       func() { x.Tag += 2 },
		"text":             func() { x.Text[3] = '\n' },
		"gap in a text":    func() { copy(x.Text[:], "a\x00b") },
		"empties":          func() { d.empties.Threshold = 0 },
		"fields":           func() { d.fieldsTold.Threshold = math.NaN() },
		"quiet empties":    func() { d.emptyQuiet = -1 },
		"quiet fields":     func() { d.fieldQuiet = d.n + 65 },
		"format":           func() { d.format.Fast = nan },
		"format before":    func() { d.format.Slow = 2 },
		"format told":      func() { d.format.Told = d.n + 1 },
		"field's tag":      func() { named.Tag += 2 },
		"field's line":     func() { named.Line = uint32(d.n) + 1 },
		"field's first":    func() { named.First = uint32(d.n) + 1 },
		"field's count":    func() { named.Count = 0 },
		"field's misses":   func() { named.Missed = fieldMisses },
		"drifts":           func() { d.driftsTold.Threshold = 6 },
		"quiet drifts":     func() { d.driftQuiet = d.n + 501 },
		"drift's tag":      func() { drifting.Tag += 4 },
		"drift's line":     func() { drifting.Line = uint32(d.n) + 1 },
		"drift's block":    func() { drifting.Tag, drifting.Block = drifting.Tag|2, driftTicks },
		"drift's sum":      func() { drifting.Sum = nan },
		"drift's mean":     func() { drifting.Mean = -1 },
		"drift's spread":   func() { drifting.Deviation = -1 },
		"drift":            func() { drifting.S = driftMost + 1 },
		"drift's total":    func() { drifting.Total = nan },
		"drift's offs":     func() { drifting.Offs = -1 },
		"trend":            func() { drifting.Trend = 2 },
		"blocks":           func() { drifting.Blocks = driftMemory + 1 },
		"blocks since":     func() { drifting.Since = driftLong },
	} {
		before := *d
		spoil()
		_, err := ReadState(d.AppendState(nil))
		require.ErrorIs(t, err, ErrState, name)
		*d = before
	}
	require.True(t, bytes.Equal(good, d.AppendState(nil)))
}

func FuzzReadState(f *testing.F) {
	d := New()
	empty := d.AppendState(nil)
	take(d, busyLog(900, 13))
	warm := d.AppendState(nil)
	f.Add(false, uint32(1), []byte{1})
	f.Add(true, uint32(3000), []byte{0, 0, 0, 1})
	log := busyLog(20, 14)
	f.Fuzz(func(t *testing.T, of bool, at uint32, patch []byte) {
		state := bytes.Clone(empty)
		if of {
			state = bytes.Clone(warm)
		}
		copy(state[int(at)%len(state):], patch)
		d, err := ReadState(state)
		if err != nil {
			require.ErrorIs(t, err, ErrState)
			return
		}
		require.True(t, bytes.Equal(state, d.AppendState(nil)))
		for _, c := range take(d, log) {
			require.True(t, 0 < c.First && c.First <= c.Line && 0 <= c.Had && c.Had <= c.Of, "%+v",
				c)
		}
		_, err = ReadState(d.AppendState(nil))
		require.NoError(t, err)
	})
}

// Repeated outages raise the thresholds higher than a single report can. ReadState accepts the
// resulting state.
func TestStateOfBusyOutageIsRead(t *testing.T) {
	d := New()
	told := 0
	var text string
	for n := range 6000 {
		text = fmt.Sprintf("level=info user=%d took=%dms status=200 bytes=%d", n%7, 20+n%9,
			900+n%80)
		switch n % 400 {
		case 350, 351, 352:
			text = fmt.Sprintf("level=info user=1 took=%d000000ms status=200 bytes=%d", n,
				90_000_000*n)
		}
		if n%800 > 740 && n > 1000 {
			text = fmt.Sprintf("level=error%d user=2 took=30ms status=%d bytes=3", n/800, 500+n/800)
		}
		d.Take([]byte(text), func(*Change) { told++ })
		if n%50 == 0 || n%400 < 353 && n%400 > 349 {
			_, err := ReadState(d.AppendState(nil))
			require.NoError(t, err, "line %d", n)
		}
	}
	require.Greater(t, told, 5)
}

func TestNewFormatLeavesThresholdsAsTheyWere(t *testing.T) {
	d := New()
	for n := range 3000 {
		d.Take(fmt.Appendf(nil, "level=info user=%d status=200", n%7), func(*Change) {})
	}
	before, formats := d.promises, 0
	for n := range 200 {
		d.Take(fmt.Appendf(nil, `{"level":"info","user":%d,"status":200}`, n%7), func(c *Change) {
			if c.Kind == Format {
				formats++
			}
		})
	}
	require.Equal(t, 1, formats)
	require.LessOrEqual(t, d.promises.surges.Threshold, before.surges.Threshold+surgeLimits.raise)
}
