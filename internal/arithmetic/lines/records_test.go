package lines

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recordsOf groups the lines of a text, given in pieces, into records. The end of the text ends the
// last record.
func recordsOf(start string, pieces ...string) (all []Line) {
	m, r := NewMeter(), NewRecords(0, start)
	keep := func(l *Line) {
		c := *l
		c.Text = slices.Clone(l.Text)
		c.why = new(l.Why())
		all = append(all, c)
	}
	for _, piece := range pieces {
		for _, b := range []byte(piece) {
			m.Add(b, 1, 0, func(l *Line) { r.Take(l, keep) })
		}
		state, err := ReadRecords(r.AppendState(nil)) // simulates a restart after each piece
		if err != nil {
			panic(err)
		}
		state.StartAt(start)
		r = state
	}
	m.End(func(l *Line) { r.Take(l, keep) })
	r.Rest(keep)
	return all
}

// heads returns the first line of each record, with one plus sign for each further line.
func heads(records []Line) (all []string) {
	for _, r := range records {
		first, _, _ := strings.Cut(string(r.Text), "\n")
		all = append(all, strings.Repeat("+", int(r.Lines-1))+first)
	}
	return all
}

func TestRecordsByForm(t *testing.T) {
	for name, of := range map[string]struct {
		text string
		want []string
	}{
		"lines": {"a\nb\n}\nc\n", []string{"a", "+b", "c"}},
		"Java": {`1 INFO ok
2 ERROR failed
com.acme.app.OrderException: no stock
	at com.acme.App.main(App.java:7)
Caused by: java.sql.SQLException: gone
	at com.acme.Db.get(Db.java:9)
	... 12 more
java.lang.IllegalStateException: the next
	at com.acme.App.main(App.java:7)
java.lang.IllegalStateException: the last
	at com.acme.App.main(App.java:7)
3 INFO ok
`, []string{"1 INFO ok", "+++++2 ERROR failed", "+java.lang.IllegalStateException: the next",
			"+java.lang.IllegalStateException: the last", "3 INFO ok"}},
		"Python": {`ERROR:root:cannot
Traceback (most recent call last):
  File "a.py", line 2, in f
    g()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    f()
ValueError
INFO:root:on
Traceback (most recent call last):
  File "a.py", line 2, in f
ZeroDivisionError: division by zero
Traceback (most recent call last):
  File "a.py", line 2, in f
TypeError: no
INFO:root:off
`, []string{"+++++++++++ERROR:root:cannot", "+++INFO:root:on",
			"++Traceback (most recent call last):", "INFO:root:off"}},
		"Go": {`2026/11/21 listening
panic: runtime error: index out of range [5] with length 3
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]

goroutine 1 [running]:
main.main()
	/tmp/x.go:4 +0x1d

goroutine 7 [select, 3 minutes]:
net/http.(*persistConn).readLoop(0xc0000a, {0x1, 0x2})
	/usr/lib/go/transport.go:2 +0x1
created by net/http.(*Transport).dialConn in goroutine 5
	/usr/lib/go/transport.go:9 +0x1
2026/11/21 listening (again)
`, []string{"2026/11/21 listening", "+++++++++++panic: runtime error: index out of range [5] " +
			"with length 3",
			"2026/11/21 listening (again)"}},
		"PostgreSQL": {`2026-11-21 03:25:33 UTC [7] LOG:  ready
2026-11-21 03:25:34 UTC [7] ERROR:  duplicate key value
2026-11-21 03:25:34 UTC [7] DETAIL:  Key (id)=(1) already exists.
2026-11-21 03:25:34 UTC [7] STATEMENT:  INSERT INTO t
	VALUES (1)
2026-11-21 03:25:35 UTC [7] LOG:  ready
`, []string{"2026-11-21 03:25:33 UTC [7] LOG:  ready",
			"+++2026-11-21 03:25:34 UTC [7] ERROR:  duplicate key value",
			"2026-11-21 03:25:35 UTC [7] LOG:  ready"}},
		"JSON": {"{\n  \"a\": [\n    1\n  ]\n}\n{\n  \"a\": {}\n}\nanswer: {\r\n  \"b\": " +
			"2\r\n});\r\n",
			[]string{"++++{", "++{", "++answer: {\r"}},
		"all indented": {" a\n b\n   c\n\t d\n", []string{" a", "++ b"}},
		"CRI": {`2026-11-21T03:25:33.1Z stdout F listening
2026-11-21T03:25:33.2Z stdout P one
2026-11-21T03:25:33.2Z stdout P two
2026-11-21T03:25:33.2Z stdout F three
2026-11-21T03:25:33.3Z stdout F four
2026-11-21T03:25:33.3Z stdout P five
2026-11-21T03:25:33.3Z stderr F six
2026-11-21T03:25:33.3Z stderr F 	at six
`, []string{"2026-11-21T03:25:33.1Z stdout F listening", "++2026-11-21T03:25:33.2Z stdout P one",
			"2026-11-21T03:25:33.3Z stdout F four", "2026-11-21T03:25:33.3Z stdout P five",
			"+2026-11-21T03:25:33.3Z stderr F six"}},
	} {
		require.Equal(t, of.want, heads(recordsOf("", of.text)), name)
	}
}

func TestRecordsByPattern(t *testing.T) {
	text := "# 1\n more\nand more\n  # 2\n\n# 3\n2026-11-21T03:25:33.1Z stderr F # 4\n"
	require.Equal(t, []string{"++# 1", "+  # 2", "# 3", "2026-11-21T03:25:33.1Z stderr F # 4"},
		heads(recordsOf(`^\s*# \d`, text)))
	require.NoError(t, CheckPattern(strings.Repeat("a", PatternMax)))
	require.ErrorContains(t, CheckPattern("[a"),
		"a valid regular expression (RE2): missing closing "+
			"]: `[a`")
	require.ErrorContains(t, CheckPattern(strings.Repeat("a", PatternMax+1)), "at most 256 bytes")
	require.ErrorContains(t, CheckPattern("(a{10}|b){100}"), "with fewer or smaller repetitions")
	long := strings.Repeat("x", startBytes-1) + "#"
	require.Equal(t, []string{"+" + long}, heads(recordsOf("#$", long+"\nx"+long+"\n")))
}

func TestRecordHasTheStrangestOfItsLines(t *testing.T) {
	var text strings.Builder
	for i := range 400 {
		text.WriteString("GET /items 200\n  cache hit\n")
		if i == 390 {
			text.WriteString("  disk é failed\n\n")
		}
	}
	records := recordsOf("", text.String())
	require.Len(t, records, 400)
	r := records[390]
	require.EqualValues(t, 2*390+1, r.Number)
	require.EqualValues(t, 390*27, r.Offset)
	require.EqualValues(t, []int64{4, 45, 44}, []int64{r.Lines, r.Bytes, r.Chars})
	require.InDelta(t, 45, r.Bits, 0)
	require.Equal(t, "GET /items 200\n  cache hit\n  disk é failed\n", string(r.Text))
	require.Less(t, r.P, 1e-2)
	require.Greater(t, records[389].P, r.P)
	require.Equal(t, r.why.Token, string(r.Text[r.From:r.To]))
	require.Contains(t, "disk failed é", r.why.Token)
}

func TestRecordsDoNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.SampledFrom([]string{
			"\n", "\n", "\n\t", "\n  ", "a", "goroutine 1 [running]:\n", "main.main()\n", "# ",
			"}\n",
			"Traceback (most recent call last):\n", "java.lang.Error: x\n", "Caused by: \xff",
			"2026-11-21T03:25:33.1Z stdout P ", " ERROR:  no\n", " DETAIL:  é\n",
			strings.Repeat("x", 3000), strings.Repeat("\n x", 700),
		})
		text := strings.Join(rapid.SliceOf(part).Draw(rt, "parts"), "")
		start := rapid.SampledFrom([]string{"", "^#", "a"}).Draw(rt, "start")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		whole := recordsOf(start, text)
		require.Equal(rt, whole, recordsOf(start, pieces...))
		at, number := int64(0), int64(1)
		for _, r := range whole {
			require.Equal(rt, []int64{at, number}, []int64{r.Offset, r.Number})
			require.True(rt, r.Lines <= recordLines && (r.Lines == 1 || r.Bytes <= recordBytes))
			require.LessOrEqual(rt, len(r.Text), TextMax)
			at, number = at+r.Bytes, number+r.Lines
		}
		require.EqualValues(rt, len(text), at)
	})
}

func TestRecordsAreBounded(t *testing.T) {
	records := recordsOf("", "a\n"+strings.Repeat(" b\n", recordLines)+"c\n"+
		strings.Repeat(" "+strings.Repeat("d", 4000)+"\n", 40))
	require.Equal(t, int64(recordLines), records[0].Lines)
	require.EqualValues(t, 1, records[1].Lines, "what is left of it")
	for _, r := range records[2:] {
		require.LessOrEqual(t, r.Bytes, int64(recordBytes))
		require.True(t, r.Cut)
		require.Len(t, r.Text, TextMax)
	}
	require.Len(t, records, 5)
}

func TestBadStatesOfRecordsAreRefused(t *testing.T) {
	r := NewRecords(3, "")
	m := NewMeter()
	for _, b := range []byte("a\n b\n") {
		m.Add(b, 1, 0, func(l *Line) { r.Take(l, nil) })
	}
	state := string(r.AppendState(nil))
	_, err := ReadRecords([]byte(state))
	require.NoError(t, err)
	for from, to := range map[string]string{
		`"version":1`: `"version":2`, `"from":3`: `"from":-3`, `"Lines":2`: `"Lines":2000`,
		`"Bytes":5`: `"Bytes":1`, `"To":1`: `"To":9`, `{`: ` {`, `"go":false`: `"go":0`,
	} {
		require.Contains(t, state, from)
		_, err := ReadRecords([]byte(strings.Replace(state, from, to, 1)))
		require.ErrorIs(t, err, ErrState, to)
	}
}
