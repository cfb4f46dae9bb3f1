package changes

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func only(t *testing.T, told []Change, kind Kind) Change {
	t.Helper()
	var found []Change
	for _, c := range told {
		if c.Kind == kind {
			found = append(found, c)
		}
	}
	require.Len(t, found, 1, "%v in %v", kind, told)
	return found[0]
}

func TestOrdinaryLogsHaveFewChanges(t *testing.T) {
	lines, changes := 0, 0
	for seed := range uint64(5) {
		log := ordinary(4000, seed)
		lines += len(log)
		changes += len(take(New(), log))
	}
	require.LessOrEqual(t, changes, lines/1000, "changes in %d lines", lines)
}

func TestSurgeOfStatusIsReported(t *testing.T) {
	log := accessLog{status: func(i int, usual string) string {
		if i >= 2640 && i < 2700 && i%30 != 7 {
			return "502"
		}
		return usual
	}}.lines(2700, 1)
	told := take(New(), log)
	c := only(t, told, Surge)
	require.Equal(t, Value, c.Subject)
	require.Equal(t, "502", c.Text)
	require.Equal(t, "HTTP", c.Before)
	require.Zero(t, c.Had)
	require.EqualValues(t, 2640, c.Of)
	require.EqualValues(t, 2641, c.First)
	require.Less(t, c.Line, c.First+20)
	require.Regexp(t, `^HTTP 502: 0 of 2,640, then \d+ of \d+$`, c.String())
}

func TestFloodOfClientIsReported(t *testing.T) {
	for _, flooding := range []string{"198.18.4.5", "10.0.1.7"} {
		log := accessLog{client: func(i int, usual string) string {
			if i >= 2000 && i%5 < 3 {
				return flooding
			}
			return usual
		}}.lines(2300, 2)
		c := only(t, take(New(), log), Surge)
		require.Equal(t, Address, c.Subject)
		require.Equal(t, flooding, c.Text)
		require.Less(t, c.Line, int64(2100))
	}
}

func TestNewTemplateIsANovelty(t *testing.T) {
	log := accessLog{between: func(i int, stamp string) []string {
		if i >= 1500 && i%4 == 0 {
			return []string{fmt.Sprintf("[%s] pool exhausted, rejecting request %d", stamp,
				i*7919%9973)}
		}
		return nil
	}}.lines(1900, 3)
	c := only(t, take(New(), log), Novelty)
	require.Equal(t, Template, c.Subject)
	require.EqualValues(t, 1501, c.First)
	require.Less(t, c.Line, int64(1600))
	require.Regexp(t, `^lines like "pool exhausted, rejecting request \d+": 0 of 1,500 lines, then`,
		c.String())
}

func TestSilenceOfHeartbeatIsReported(t *testing.T) {
	beats := func(until int) accessLog {
		return accessLog{between: func(i int, stamp string) []string {
			if i%30 == 1 && i < until {
				return []string{fmt.Sprintf("%s probe[81]: heartbeat ok, queue %d", stamp, i*31%50)}
			}
			return nil
		}}
	}
	require.Empty(t, take(New(), beats(4000).lines(2500, 4)))
	told := take(New(), beats(2000).lines(2500, 4))
	c := only(t, told, Silence)
	require.Len(t, told, 1, "all keys of the heartbeat are one silence")
	require.True(t, c.Timed)
	require.InDelta(t, 30, c.Every.Seconds(), .5)
	require.InDelta(t, 31, float64(c.EveryLines), 2)
	require.Contains(t, c.String(), `probe[81]: heartbeat ok`)
	require.Contains(t, c.String(), ": every 30s, silent since 12:33:01")
	require.Less(t, c.Silent, 80*time.Second)
}

// In a log without time stamps, the detector's clock counts lines.
func TestSilenceIsReportedInLines(t *testing.T) {
	stamp := regexp.MustCompile(`\d\d:\d\d:\d\d`)
	log := accessLog{between: func(i int, _ string) []string {
		if i%25 == 1 && i < 1500 {
			return []string{"worker idle, nothing to collect"}
		}
		return nil
	}}.lines(2000, 5)
	for i := range log {
		log[i] = stamp.ReplaceAll(log[i], nil)
	}
	c := only(t, take(New(), log), Silence)
	require.False(t, c.Timed)
	require.EqualValues(t, 26, c.EveryLines)
	require.Regexp(t, `: every 26 lines, none in the last \d\d$`, c.String())
}

func TestPauseOfTheLogIsNoSilence(t *testing.T) {
	log := accessLog{between: func(i int, stamp string) []string {
		if i%30 == 1 {
			return []string{stamp + " probe[81]: heartbeat ok"}
		}
		return nil
	}}.lines(2500, 6)
	hour := regexp.MustCompile(`2026:12:`)
	for i := len(log) - 500; i < len(log); i++ {
		log[i] = hour.ReplaceAll(log[i], []byte("2026:15:"))
	}
	for _, c := range take(New(), log) {
		require.NotEqual(t, Silence, c.Kind, c.String())
	}
}

func TestNoonOfTwelveHourClockIsNoChange(t *testing.T) {
	for _, layout := range []string{"01/02/2006 03:04:05 PM", "Jan 2, 2006 3:04:05 PM"} {
		var log [][]byte
		for i := range 8000 {
			stamp := midday.Add(time.Duration(i-3600) * time.Second).Format(layout)
			text := fmt.Sprintf("%s INFO request %d is done", stamp, i*31%97)
			if i%30 == 1 {
				text = stamp + " INFO probe: heartbeat ok"
			}
			log = append(log, []byte(text))
		}
		require.Empty(t, take(New(), log), layout)
	}
}

// Java's garbage collector writes the time since its start among durations.
func TestCounterBetweenOtherNumbersIsNoSurge(t *testing.T) {
	var log [][]byte
	for i := range 6000 {
		took := 1 + float64(i*31%97)/100
		if i%4 == 0 {
			took = 20_000 + 250*float64(i)
		}
		log = append(log, fmt.Appendf(nil, "[GC (ms): %.1f]", took))
	}
	require.Empty(t, take(New(), log))
}

func TestNumberOutsideItsPastIsReported(t *testing.T) {
	log := accessLog{took: func(i int, usual float64) float64 {
		if i == 1800 {
			return 20
		}
		return usual
	}}.lines(1810, 7)
	c := only(t, take(New(), log), Number)
	require.EqualValues(t, 1801, c.Line)
	require.InDelta(t, 20, c.Value, 1e-9)
	require.InDelta(t, .08, c.Largest, .001)
	require.Equal(t, "rt 20.000: the largest of 1,800 before is 0.08", c.String())
}

// grown rises linearly from the value `from` at i = 5,000 to the value `to` at i = 9,000, and is
// constant outside these bounds.
func grown(i int, from, to float64) float64 {
	return from + float64((to-from)*min(1, max(0, float64(i-5000)/4000)))
}

func TestDriftOfShareIsReported(t *testing.T) {
	log := accessLog{status: func(i int, usual string) string {
		if float64(i*7919%1000) < grown(i, 10, 50) {
			return "500"
		}
		return usual
	}}.lines(9000, 16)
	c := only(t, take(New(), log), Drift)
	require.Equal(t, "500", c.Text)
	require.Less(t, c.Line, int64(8500), "before the share is 4.5 %")
	require.InDelta(t, .011, c.Usual, .002)
	require.InDelta(t, .03, c.Now, .01)
	require.Regexp(t, `^HTTP 500: 1\.\d+ % before, [234]\.\d+ % of the last [\d,]+$`, c.String())
}

func TestDriftOfNumberIsReported(t *testing.T) {
	for _, times := range []float64{2, .5} {
		log := accessLog{took: func(i int, usual float64) float64 {
			return usual * grown(i, 1, times)
		}}.lines(9000, 17)
		told := take(New(), log)
		c := only(t, told, Drift)
		require.Less(t, c.Line, int64(8500))
		require.InDelta(t, .04, c.Usual, .01)
		require.InEpsilon(t, 1.55, max(c.Now/c.Usual, c.Usual/c.Now), .2)
		require.Regexp(t, `^rt: about 0\.0\d+ before, 0\.0\d+ in the last [\d,]+$`, c.String())
	}
}

// Numbers that have grown since the first line, such as counters, are not reported as a drift.
func TestCounterIsNoDrift(t *testing.T) {
	log := accessLog{took: func(i int, usual float64) float64 { return float64(i) }}.lines(9000, 18)
	for _, c := range take(New(), log) {
		require.NotEqual(t, Drift, c.Kind, c.String())
	}
}

// jsonLog returns a log of n JSON lines. The function `changed` receives the usual i-th line and
// returns the line to use.
func jsonLog(n int, changed func(i int, l string) string) (log [][]byte) {
	for i := range n {
		l := fmt.Sprintf(
			`{"time":"2026-11-20T12:%02d:%02dZ","level":"info","user":"u%d","took":%d,"ok":true}`,
			i/60%60,
			i%60, i*7919%17, 20+i*31%50)
		log = append(log, []byte(changed(i, l)))
	}
	return log
}

// from returns a function for jsonLog that replaces pattern in line number `at` and in all later
// lines.
func from(at int, pattern, with string) func(int, string) string {
	r := regexp.MustCompile(pattern)
	return func(i int, l string) string {
		if i < at {
			return l
		}
		return r.ReplaceAllString(l, with)
	}
}

func TestChangesInFieldsAreReported(t *testing.T) {
	for _, c := range []struct {
		pattern, with string
		kind          Kind
		within        int64
		says          string
	}{
		{`"took":\d+`, `"took":NaN`, Empty, 2, "took NaN: a number all 1,000 times before"},
		{`"took":\d+`, `"took":null`, Empty, 2, "took null: a number all 1,000 times before"},
		{`"user":"u\d+"`, `"user":""`, Empty, 2, "user empty: a value all 1,000 times before"},
		{`"user":"u\d+"`, `"user":"-"`, Empty, 2, "user -: a value all 1,000 times before"},
		{`,"ok":true`, `,"ok":true,"retry_count":1`, NewField, 3,
			"new field retry_count: in none of 1,000 lines before"},
		{`"took":\d+,`, ``, NoField, 8, "field took is missing: there 1,000 times in a row before"},
		{`,"ok":true`, ``, NoField, 8, "field ok is missing: there 1,000 times in a row before"},
		{`"level":"info",`, ``, NoField, 8, "field level is missing: there 1,000 times in a row " +
			"before"},
	} {
		told := take(New(), jsonLog(1020, from(1000, c.pattern, c.with)))
		one := only(t, told, c.kind)
		require.LessOrEqual(t, one.Line, 1000+c.within, c.says)
		require.Equal(t, c.says, one.String())
	}
	require.Empty(t, take(New(), jsonLog(1020, from(0, "$^", ""))), "nothing changes")
}

// An empty value is not reported if the value was often empty before, such as a client's name in an
// access log.
func TestValueThatIsOftenEmptyIsUsual(t *testing.T) {
	log := jsonLog(3000, func(i int, l string) string {
		if i%97 == 0 {
			return from(0, `"took":\d+`, `"took":null`)(i, l)
		}
		return l
	})
	for _, c := range take(New(), log) {
		require.NotEqual(t, Empty, c.Kind, c.String())
	}
}

func TestNewFormatIsOneChange(t *testing.T) {
	log := jsonLog(2000, from(1000,
		`.*T(.*)Z","level":"(.*)","user":"(.*)","took":(\d+).*`, `$1 [$2] <$3> handled in $4 ms`))
	told := take(New(), log)
	c := only(t, told, Format)
	require.LessOrEqual(t, c.Line, int64(1016))
	require.Regexp(t,
		`^the format changed: lines of new shapes .*% before, 7\d.* % of the last 16$`, c.String())
	require.LessOrEqual(t, len(told), 3, "%v", told)
}

func TestDueIsLongerThanTheLogsPauses(t *testing.T) {
	d := New()
	_, ok := d.Due()
	require.False(t, ok)
	take(d, ordinary(1000, 8))
	due, ok := d.Due()
	require.True(t, ok)
	require.Equal(t, 20*time.Second, due.Round(time.Second))
}

func TestAnyLogHasBoundedNumberOfReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,3}|\d{1,4}( ?ms)?|\d\d:\d\d:\d\d|[ =:.]{1,3}`)
		words := rapid.SliceOfN(word, 1, 30).Draw(t, "words")
		runs := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 1, 60).Draw(t, "runs")
		d, counts := New(), map[Kind]int{}
		for _, run := range runs {
			for i := range run%97 + 1 {
				var l []byte
				for j := range run % 13 {
					l = append(append(l, words[(run+j*i*(run>>8))%len(words)]...), ' ')
				}
				d.Take(l, func(c *Change) { counts[c.Kind]++; require.NotEmpty(t, c.String()) })
			}
		}
		most := int(d.n)/int(surgeLimits.lines) + 5
		require.LessOrEqual(t, counts[Surge]+counts[Novelty], most)
		require.LessOrEqual(t, counts[Number], most)
		require.LessOrEqual(t, counts[Empty], most)
		require.LessOrEqual(t, counts[NewField]+counts[NoField], most)
		require.LessOrEqual(t, counts[Format], most)
		require.LessOrEqual(t, counts[Drift], int(d.n)/int(driftLimits.lines)+2)
	})
}

func TestDetectorHasFixedSize(t *testing.T) {
	require.LessOrEqual(t, int(reflect.TypeFor[Detector]().Size()), StateBytesMax)
	d := New()
	size := len(d.AppendState(nil))
	require.LessOrEqual(t, size, StateBytesMax)
	take(d, ordinary(2000, 10))
	require.Len(t, d.AppendState(nil), size)
}

func TestWarmLineAllocatesNothing(t *testing.T) {
	log := ordinary(3000, 11)
	d := New()
	take(d, log[:1000])
	at, told := 1000, 0
	each := func(*Change) { told++ }
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		d.Take(log[at], each)
		at++
	}))
	require.Zero(t, told)
}

func FuzzTake(f *testing.F) {
	f.Add([]byte("12:00:01 a=5 b=7ms c 10.0.0.1\n\n99:99:99,5 \xff\x00 1.2.3.4.5 1e9"), uint16(3))
	f.Add(bytes.Repeat([]byte("1700000000.5 x:3 "), 400), uint16(500))
	f.Fuzz(func(t *testing.T, text []byte, times uint16) {
		log := slices.Collect(bytes.SplitSeq(text, []byte("\n")))
		d, n := New(), int64(0)
		for i := range int(times%1000) + 1 {
			d.Take(log[i%len(log)], func(c *Change) {
				require.True(t, 1 <= c.First && c.First <= c.Line && c.Line == d.n, "%+v", c)
				require.True(t, 0 <= c.Had && c.Had <= c.Of && c.Count <= c.Length+1, "%+v", c)
			})
			n++
		}
		require.Equal(t, n, d.n)
		_, err := ReadState(d.AppendState(nil))
		require.NoError(t, err)
	})
}

// A report of an outage does not raise the threshold of its place. So the next outage is reported
// after the same number of lines as the first.
func TestAnotherOutageIsReportedAsSoon(t *testing.T) {
	for _, second := range []string{"502", "500"} {
		log := accessLog{status: func(i int, usual string) string {
			switch {
			case i >= 2640 && i < 2800:
				return "502"
			case i >= 5000:
				return second
			}
			return usual
		}}.lines(5100, 1)
		var lines []int64
		for _, c := range take(New(), log) {
			if c.Kind == Surge && c.Text == "502" || c.Text == second {
				lines = append(lines, c.Line)
			}
		}
		require.Len(t, lines, 2, second)
		require.Less(t, lines[1], int64(5001+30), second)
	}
}

func TestRepeatedNumberIsNoRecord(t *testing.T) {
	for _, value := range []float64{.7, .9, 1.3, 5.003, 30.001, 1<<24 + 1} {
		of := place{Largest: float32(value)}
		require.False(t, of.record(value, lg(valueLeast+value)), "%v", value)
		require.True(t, of.record(1.01*value, lg(valueLeast+1.01*value)), "%v", value)
	}
}

// A service may write hundreds of lines when it starts, and then one line a second.
func TestPauseIsDueAfterFastStart(t *testing.T) {
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	d := New()
	write := func(n int, apart time.Duration) {
		for i := range n {
			at = at.Add(apart)
			take(d, [][]byte{fmt.Appendf(nil, "%s worker %d did job %d",
				at.Format("2006-01-02 15:04:05.000"), i%7, i*i%101)})
		}
	}
	write(500, 10*time.Millisecond)
	_, ok := d.Due()
	require.False(t, ok)
	write(2000, time.Second)
	due, ok := d.Due()
	require.True(t, ok)
	require.Equal(t, 16*time.Second, due.Round(time.Second))
}
