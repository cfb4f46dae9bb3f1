package lines

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// feed adds text with its costs to m. It returns copies of the lines that end in the text.
func feed(m *Meter, text []byte, costs []float64) (got []Line) {
	for i, b := range text {
		m.Add(b, costs[i], 2*costs[i], keep(&got))
	}
	return got
}

func keep(list *[]Line) func(*Line) {
	return func(l *Line) {
		c := *l
		c.Text, c.Costs, c.rating = bytes.Clone(l.Text), slices.Clone(l.Costs), nil
		*list = append(*list, c)
	}
}

func drawText(t *rapid.T) (text []byte, costs []float64) {
	part := rapid.SampledFrom(
		[]string{
			"\n",
			"\n",
			"a",
			"user=",
			"42",
			" é",
			"\xff",
			"the quick brown fox",
			strings.Repeat("x", TextMax-1),
		},
	)
	for _, p := range rapid.SliceOf(part).Draw(t, "parts") {
		text = append(text, p...)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range text {
		costs = append(costs, 30*math.Pow(r.Float64(), 8))
	}
	return text, costs
}

func TestLinesAreTheTextWhateverItsPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, costs := drawText(t)
		whole := NewMeter()
		want := feed(whole, text, costs)
		whole.End(keep(&want))

		m := NewMeter()
		var got []Line
		for fed := 0; fed < len(text); {
			n := rapid.IntRange(1, len(text)-fed).Draw(t, "piece")
			got = append(got, feed(m, text[fed:fed+n], costs[fed:fed+n])...)
			fed += n
			if rapid.Bool().Draw(t, "restore") {
				restored, err := ReadState(m.AppendState(nil))
				require.NoError(t, err)
				require.Equal(t, m.AppendState(nil), restored.AppendState(nil))
				m = restored
			} else {
				m = m.Clone()
			}
		}
		m.End(keep(&got))
		require.Equal(t, want, got)
		require.Equal(t, whole.AppendState(nil), m.AppendState(nil))
		requireLinesOf(t, text, costs, got)
	})
}

func requireLinesOf(t require.TestingT, text []byte, costs []float64, got []Line) {
	offset := 0
	for i, l := range got {
		rest := text[offset:]
		length := len(rest)
		if at := bytes.IndexByte(rest, '\n'); at >= 0 {
			length = at + 1
		}
		plain := bytes.TrimSuffix(rest[:length], newline)
		require.EqualValues(t, i+1, l.Number)
		require.EqualValues(t, i, l.Seen)
		require.EqualValues(t, offset, l.Offset)
		require.EqualValues(t, length, l.Bytes)
		require.Equal(t, string(plain[:min(len(plain), TextMax)]), string(l.Text))
		require.Equal(t, len(plain) > TextMax, l.Cut)
		require.Len(t, l.Costs, len(l.Text))
		if utf8.Valid(rest[:length]) {
			require.EqualValues(t, utf8.RuneCount(rest[:length]), l.Chars)
		}
		bits := 0.
		for _, cost := range costs[offset : offset+length] {
			bits += cost
		}
		require.Equal(t, bits, l.Bits)
		require.Equal(t, 2*bits, l.Baseline)
		require.Greater(t, l.P, 0.)
		require.LessOrEqual(t, l.P, 1.)
		require.True(t, 0 <= l.From && l.From <= l.To && l.To <= l.Bytes)
		offset += length
	}
	require.Len(t, text, offset)
}

func TestCostsDoNotRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, costs := drawText(t)
		want := feed(NewMeter(), text, costs)
		for i := range costs {
			costs[i] = 0
		}
		for i, l := range feed(NewMeter(), text, costs) {
			require.Equal(t, want[i].Strangeness, l.Strangeness)
		}
	})
}

func TestMemoryOfMeterIsBounded(t *testing.T) {
	m := NewMeter()
	long := bytes.Repeat([]byte("ab"), 100_000)
	costs := slices.Repeat([]float64{.5}, len(long))
	feed(m, long, costs)
	require.EqualValues(t, len(long), m.Pending())
	require.Less(t, len(m.AppendState(nil)), StateBytesMax)
	got := feed(m, []byte("\n"), []float64{.5})
	require.True(t, got[0].Cut)
	require.EqualValues(t, len(long)+1, got[0].Bytes)
	require.Equal(t, .5*float64(len(long)+1), got[0].Bits)
	require.Equal(t, long[:TextMax], got[0].Text)
	require.Zero(t, m.Pending())
	require.EqualValues(t, 1, m.Seen())
}

func TestWarmMeterAllocatesNothing(t *testing.T) {
	m := NewMeter()
	text, costs := ordinaryLog(100, 1)
	feed(m, text, costs)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for i, b := range text {
			m.Add(b, costs[i], 0, nil)
		}
	}))
}

// ordinaryLog returns a log of lines of three formats. Constant bytes are cheap, digits and names
// expensive, as if a model had learned the log.
func ordinaryLog(lines int, seed uint64) (text []byte, costs []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for n := range lines {
		var line string
		switch r.IntN(3) {
		case 0:
			line = fmt.Sprintf("10:%02d:%02d sshd[%d]: Accepted key for %s port %d\n", n/60%60,
				n%60, 1000+r.IntN(9000), name(r), r.IntN(60000))
		case 1:
			line = fmt.Sprintf("10:%02d:%02d cron: run-parts /etc/cron.hourly\n", n/60%60, n%60)
		case 2:
			line = fmt.Sprintf("10:%02d:%02d httpd: GET /static/%s.css 200 %d\n", n/60%60, n%60,
				name(r), r.IntN(9000))
		}
		text = append(text, line...)
		for range len(line) {
			costs = append(costs, 0)
		}
	}
	for i, b := range text {
		switch {
		case b >= '0' && b <= '9':
			costs[i] = 6 * r.Float64()
		default:
			costs[i] = .4 * r.Float64() * r.Float64()
		}
	}
	return text, costs
}

func name(r *rand.Rand) string {
	return []string{"anna", "bela", "carl", "dora", "emil"}[r.IntN(5)]
}

// The share of ordinary lines with P <= x is at most about x. The share may be lower, because P is
// shrunk towards other logs, whose lines differ more.
func TestProbabilitiesOfOrdinaryLinesAreNearUniform(t *testing.T) {
	text, costs := ordinaryLog(20_000, 2)
	got := feed(NewMeter(), text, costs)[WarmUp:]
	for _, rate := range []float64{.5, .2, .1, .05, .02, .01, .005} {
		count := 0.
		for _, l := range got {
			if l.P <= rate {
				count++
			}
		}
		share := count / float64(len(got)) / rate
		require.Less(t, share, 1.5, "of lines with P <= %v", rate)
	}
}

// strangeLine returns a line with a changed field, from byte `from` to byte `to`. Its bytes cost 8
// bits each. The rest of the line is cheap.
func strangeLine() (text []byte, costs []float64, from, to int) {
	text = []byte("10:30:00 cron: run-parts /dev/shm/.x/run\n")
	from = bytes.Index(text, []byte("/dev"))
	to = len(text) - 1
	for i := range text {
		cost := .1
		if i >= from && i < to {
			cost = 8
		}
		costs = append(costs, cost)
	}
	return text, costs, from, to
}

func TestChangedFieldIsFoundAndMarked(t *testing.T) {
	m := NewMeter()
	feed(m, first(ordinaryLog(500, 4)), second(ordinaryLog(500, 4)))
	text, costs, from, to := strangeLine()
	got := feed(m, text, costs)[0]
	require.Less(t, got.P, 1./1000)
	require.Greater(t, got.Rank(), int64(1000))
	require.Equal(t, string(text[from:to]), string(text[got.From:got.To]))
	require.True(t, got.Warm())
}

func first(text []byte, _ []float64) []byte      { return text }
func second(_ []byte, costs []float64) []float64 { return costs }

func TestBurstOfStrangeLinesDoesNotBecomeNormalAtOnce(t *testing.T) {
	text, costs := ordinaryLog(1000, 5)
	m, calm := NewMeter(), NewMeter()
	feed(m, text, costs)
	feed(calm, text, costs)
	r := rand.New(rand.NewPCG(6, 0))
	for n := range 30 {
		var line []byte
		for range 8 {
			for range 4 + r.IntN(6) {
				line = append(line, byte('a'+r.IntN(26)))
			}
			line = append(line, ' ')
		}
		got := feed(m, append(line, '\n'), make([]float64, len(line)+1))[0]
		require.Less(t, got.P, 1./16, "line %d of the burst", n)
	}

	// Ordinary lines after the burst are no stranger than without the burst. A strange line after
	// the burst is still strange.
	text, costs = ordinaryLog(300, 7)
	after, without := feed(m, text, costs), feed(calm, text, costs)
	for i := range after {
		if without[i].P > 1./16 {
			require.Greater(t, after[i].P, 1./16, "line %d after the burst", i)
		}
	}
	line, cost, _, _ := strangeLine()
	require.Less(t, feed(m, line, cost)[0].P, 1./32)
}

// The hash of the probabilities is the same on every machine. A change that alters the hash must
// also change stateVersion.
func TestProbabilitiesAreTheSameOnEveryMachine(t *testing.T) {
	text, costs := ordinaryLog(2000, 8)
	m := NewMeter()
	sum := sha256.New()
	for _, l := range feed(m, text, costs) {
		sum.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(l.P)))
	}
	require.Equal(t, "54707e6c88ae2138", hex.EncodeToString(sum.Sum(nil)[:8]))
	state := sha256.Sum256(m.AppendState(nil))
	require.Equal(t, "6f8f2f4df7065075", hex.EncodeToString(state[:8]))
}

func TestDistanceIsExactWhereItIsLess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var v, w vector
		whole, number := int64(0), rapid.Int16Range(-roots[crowdSumMost], roots[crowdSumMost])
		for i := range v {
			v[i], w[i] = number.Draw(rt, "v"), number.Draw(rt, "w")
			d := int64(v[i]) - int64(w[i])
			whole += d * d
		}
		most := rapid.Int64Range(0, 2*whole+1).Draw(rt, "most")
		got := v.distance(&w, most)
		require.Equal(rt, whole < most, got < most)
		if whole < most {
			require.Equal(rt, whole, got)
		}
	})
}

// Frequent words must not make a rare word seem new.
func TestWordOfEarlierLineIsNotNew(t *testing.T) {
	var r rarity
	take := func(line string) spacedWord {
		_, rarest := r.take(&scratch{words: spaced(nil, []byte(line))})
		return rarest
	}
	fault := func(i int) string { return "fault in " + letters(1000+i) }
	for i := range 200 {
		for j := range 200 {
			take("status of " + letters(j))
		}
		take(fault(i))
	}
	for i := range 200 {
		require.EqualValues(t, 1, take(fault(i)).lines, i)
	}
}

// letters returns a word without digits for a number.
func letters(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(n))
}

func TestTimeOfDayExplainsNothing(t *testing.T) {
	r := NewRating()
	for i := range 400 {
		status := "unpacked"
		if i%20 == 0 {
			status = "installed"
		}
		r.Take(fmt.Appendf(nil, "2026-05-09 07:29:24 status %s", status))
	}
	const line = "2026-05-09 07:29:25 status installed"
	_, _, from, to := r.Take([]byte(line))
	require.Equal(t, "installed", line[from:to])
}

func TestScoresBeyondTheBinsCountAsEqual(t *testing.T) {
	tail := newTail()
	for range 1000 {
		tail.add(2000, 1)
	}
	require.Greater(t, tail.p(2000), .9)
}
