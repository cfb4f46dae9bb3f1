package server

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// linesOf scores a text by lines as a stream, and returns the lines and the summary.
func (g *rig) linesOf(path, text string, accept string) (lines []api.LineEvent, sum api.SummaryEvent) {
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
	for _, accept := range []string{contract.MediaEventStream, contract.MediaNDJSON, contract.MediaJSON} {
		path := g.create(`{"seed":3,"settings":{"chunk":16,"baseline":true}}`) + "/score?unit=line&tokens=true"
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

// What is left out of the events is what was asked to be left out.
func TestALineHasWhatWasAskedFor(t *testing.T) {
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

func TestATextThatIsNotLearntLeavesTheSession(t *testing.T) {
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

func TestLinesThatAreFlaggedAreNotLearnt(t *testing.T) {
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
		p := requireProblem(t, g.text(g.create("{}")+"/score?"+query, "x"), api.ProblemInvalidParameter)
		require.Equal(t, field, *p.Field)
	}
	cache := g.create(`{"settings":{"method":"cache"}}`) + "/score?unit=line&learn=unflagged"
	require.Equal(t, "learn", *requireProblem(t, g.text(cache, "x"), api.ProblemInvalidField).Field)
}
