package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func (g *rig) linesOf(path, text string, accept string) (lines []api.LineEvent,
	sum api.SummaryEvent) {
	g.t.Helper()
	events := readEvents(g.text(path, text, "Accept", accept)).all(g.t)
	last := len(events) - 1
	for _, e := range events[:last] {
		line := as[api.LineEvent](g.t, e)
		if e.ID != "" {
			id, err := strconv.ParseInt(e.ID, 10, 64)
			require.NoError(g.t, err)
			require.GreaterOrEqual(g.t, id, line.Offset+line.Bytes, "what the session has by then")
		}
		lines = append(lines, line)
	}
	return lines, as[api.SummaryEvent](g.t, events[last])
}

func TestLinesAreTheSameInEveryForm(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	const text = "one line\n\nbytes \xff\nand the last"
	var want []api.LineEvent
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON,
		contract.MediaJSON} {
		path := g.create(`{"seed":3,"settings":{"chunk":16,"baseline":true}}`) +
			"/score?unit=line&tokens=true"
		var found []api.LineEvent
		if accept == contract.MediaJSON {
			sum := decode[api.SummaryEvent](t, g.text(path, text), http.StatusOK)
			require.Nil(t, sum.LinesLeftOut)
			found = sum.Lines
		} else {
			found, _ = g.linesOf(path, text, accept)
		}
		if want == nil {
			want = found
		}
		require.Equal(t, want, found)
	}
	require.Len(t, want, 4)
	for n, line := range want {
		require.EqualValues(t, n+1, line.Number)
		require.EqualValues(t, n, line.Seen)
		require.False(t, line.Warm)
		require.Equal(t, n < 3, line.Ended)
		require.NotNil(t, line.BaselineBits)
		require.EqualValues(t, int64(1/line.P), line.Rank)
	}
	require.Equal(t, "one line", *want[0].Text)
	require.Len(t, want[0].TokenBits, len("one line"))
	require.EqualValues(t, 9, want[1].Offset)
	require.Empty(t, *want[1].Text)
	require.Equal(t, "bytes \uFFFD", *want[2].Text)
	require.Equal(t, []byte("bytes \xff"), want[2].TextBase64)
	require.Nil(t, want[2].Cut)
}

func TestRecordsAreTheSameInEveryForm(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	const text = "09:05:00 ERROR é\njava.lang.IllegalStateException: no stock\n\tat " +
		"com.acme.App.main(App.java:7)\n" +
		"\tat com.acme.App.run(App.java:9)\nCaused by: java.io.IOException\n09:05:01 " +
		"INFO\n09:05:02 IN"
	var want []api.LineEvent
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON,
		contract.MediaJSON} {
		path := g.create(`{"seed":3,"settings":{"chunk":16}}`) + "/score?unit=record"
		var found []api.LineEvent
		if accept == contract.MediaJSON {
			found = decode[api.SummaryEvent](t, g.text(path, text), http.StatusOK).Lines
		} else {
			found, _ = g.linesOf(path, text, accept)
		}
		if want == nil {
			want = found
		}
		require.Equal(t, want, found)
	}
	require.Len(t, want, 3)
	for n, l := range want {
		require.EqualValues(t, []int64{1, 6, 7}[n], l.Number)
		require.EqualValues(t, []int64{5, 1, 1}[n], *l.Lines)
		require.Equal(t, n == 0, l.Ended)
	}
	require.Equal(t, strings.Join(strings.Split(text, "\n")[:5], "\n"), *want[0].Text)
	require.EqualValues(t, strings.Index(text, "09:05:01"), want[1].Offset)
	require.EqualValues(t, want[1].Offset, want[0].Bytes)
	require.EqualValues(t, want[0].Bytes-1, want[0].Chars)
	require.NotNil(t, want[0].Why)
}

func TestPatternSaysHowRecordsBegin(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"seed":3}`) + "/score?unit=record"
	lines, _ := g.linesOf(path+"&record_start="+url.QueryEscape(`^\d+ `), "1 a\nb\n2 c\n",
		contract.MediaNDJSON)
	require.Len(t, lines, 2)
	require.Equal(t, "1 a\nb", *lines[0].Text)
	lines, _ = g.linesOf(path+"&text=false", "d\n3 e\n", contract.MediaNDJSON)
	require.EqualValues(t, 2, *lines[0].Lines, "it is the session's pattern")
	require.Nil(t, lines[0].Text)
	for query, want := range map[string]string{
		"unit=record&record_start=%5Ba": "record_start: found \"[a\", " +
			"expected a valid regular expression (RE2): missing closing ]: `[a`",
		"unit=line&record_start=a": "record_start: found \"a\", expected no value without " +
			"unit=record",
		"unit=record&tokens=true": "tokens: found true, expected " +
			"false without unit=line",
		"unit=line&trouble_words=a%0Ab-c": "expected words of trouble: line " +
			"2: found \"b-c\", expected letters and _ alone",
		"trouble_words=a": "trouble_words: found \"a\", expected no value without unit=line",
		"unit=record&record_start=" + strings.Repeat("a", 257): "record_start: found ",
	} {
		p := requireProblem(t, g.text(strings.TrimSuffix(path, "unit=record")+query, "x"),
			api.ProblemInvalidParameter)
		require.Equal(t, http.StatusBadRequest, p.Status)
		require.Contains(t, *p.Detail, want)
	}
}

func TestLineHasRequestedFields(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"seed":3}`) + "/score?unit=line"
	lines, sum := g.linesOf(path+"&text=false", "a line\n", contract.MediaNDJSON)
	require.Nil(t, lines[0].Text)
	require.Nil(t, lines[0].TokenBits)
	require.EqualValues(t, 7, sum.Offset)
	for query, field := range map[string]string{
		"unit=line&logprobs=true": "logprobs", "tokens=true": "tokens", "unit=word": "unit",
		"learn=maybe": "learn", "unit=line&text=perhaps": "text",
	} {
		resp := g.text(strings.TrimSuffix(path, "unit=line")+query, "x")
		p := requireProblem(t, resp, api.ProblemInvalidParameter)
		require.Equal(t, field, *p.Field)
	}
	long := strings.Repeat("\n", 20_000)
	all := decode[api.SummaryEvent](t, g.text(path, long), http.StatusOK)
	require.EqualValues(t, len(long), int64(len(all.Lines))+*all.LinesLeftOut)
}

func TestUnlearnedTextLeavesSessionUnchanged(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	session := g.create(`{"seed":3}`)
	g.score(session, someText)
	was := g.export(session)
	before := g.get(session)
	for _, query := range []string{"?learn=false", "?learn=false&unit=line"} {
		resp := g.text(session+"/score"+query, someText, "Accept", contract.MediaEventStream)
		events := readEvents(resp).all(t)
		for _, e := range events[:len(events)-1] {
			require.Empty(t, e.ID, "nobody goes on there")
		}
		sum := as[api.SummaryEvent](t, events[len(events)-1])
		require.EqualValues(t, len(someText), sum.Bytes)
		require.Equal(t, before.Offset, sum.Offset)
		require.Equal(t, before.Totals, sum.Totals)
	}
	require.Equal(t, was, g.export(session))
	require.EqualValues(t, 2*len(someText), g.score(session, someText).Offset)
}

func TestLinesThatAreFlaggedAreNotLearned(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"seed":3}`) + "/score?unit=line&learn=unflagged&threshold=1"
	lines, _ := g.linesOf(path, strings.Repeat(someText, 20), contract.MediaNDJSON)
	require.True(t, *lines[0].Learnt)
	flagged := 0
	for _, l := range lines {
		require.Equal(t, !l.Warm, *l.Learnt)
		if !*l.Learnt {
			flagged++
		}
	}
	require.NotZero(t, flagged)

	for query, field := range map[string]string{
		"learn=unflagged": "learn", "unit=line&learn=unflagged&threshold=0": "threshold",
		"unit=line&learn=unflagged&threshold=2": "threshold",
	} {
		p := requireProblem(t, g.text(g.create("{}")+"/score?"+query, "x"),
			api.ProblemInvalidParameter)
		require.Equal(t, field, *p.Field)
	}
	cache := g.create(`{"settings":{"method":"cache"}}`) + "/score?unit=line&learn=unflagged"
	require.Equal(t, "learn", *requireProblem(t, g.text(cache, "x"), api.ProblemInvalidField).Field)
}
