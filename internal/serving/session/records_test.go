package session

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

// records feeds a text to a session, and returns the finished line records and the unfinished last
// record.
func records(
	t fatal, mg *Manager, id string, o ScoreOptions, body ...string,
) (ended, rest []Line) {
	t.Helper()
	o.Lines, o.Records, o.Text = true, true, true
	sum, err := mg.Score(background, Caller{}, id, (*reads)(&body), o, func(c Chunk) error {
		require.Empty(t, c.Lines)
		ended = append(ended, c.Records...)
		return nil
	})
	require.NoError(t, err)
	for _, l := range []*Line{sum.Last, sum.Rest} {
		if l != nil {
			rest = append(rest, *l)
		}
	}
	return ended, rest
}

// recordsOf computes the expected line records of a text with package lines alone.
func recordsOf(start, text string, from int64, logProbs []float64) (all []Line) {
	m, r := lines.NewMeter(), lines.NewRecords(from, start)
	for i := range len(text) {
		m.Add(text[i], max(0, -logProbs[i]/math.Ln2), 0, func(l *lines.Line) {
			l.Offset += from
			r.Take(l, func(l *lines.Line) {
				all = append(all, Line{
					Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Chars: l.Chars,
					Bits:        l.Bits,
					Strangeness: l.Strangeness, Text: bytes.Clone(l.Text), Why: l.Why(),
					Lines: l.Lines,
					Ended: true,
				})
			})
			l.Offset -= from
		})
	}
	return all
}

// Only the text and the offset where records begin determine a session's records, not how requests
// split the text.
func TestRecordsAreFunctionOfTextAndStart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{ReplayMax: time.Hour, Threads: 2})
		defer func() { sv.stop() }()
		id := create(rt, sv.mg, CreateRequest{})
		before := whole(0, 2)[:rapid.IntRange(0, 15).Draw(rt, "before")]
		score(rt, sv.mg, id, before)
		part := rapid.SampledFrom([]string{
			"7 GET /1\n", "  at x\n", "\n", "Traceback (most recent call last):\n",
			"java.lang.Error: x\n",
		})
		text := strings.Join(rapid.SliceOfN(part, 1, 14).Draw(rt, "parts"), "")
		start := rapid.SampledFrom([]string{"", "G", "^ "}).Draw(rt, "start")
		_, logProbs := alone(rt, testModel(t), CreateRequest{Seed: new(uint64(3))}, before+text)
		from := int64(len(before))
		want := recordsOf(start, text, from, logProbs[from:])

		var found []Line
		options := ScoreOptions{RecordStart: &start}
		for _, body := range cut(rt, text, 60) {
			ended, rest := records(rt, sv.mg, id, options, cut(rt, body, 30)...)
			found = append(found, ended...)
			require.NotEmpty(rt, rest)
			last := rest[len(rest)-1]
			require.False(rt, last.Ended)
			require.Equal(rt, get(rt, sv.mg, id).Offset, last.Offset+last.Bytes)
			id = happens(rt, sv, id)
			options.RecordStart = nil // later requests need not repeat the pattern
		}
		require.Equal(rt, want, found)
		require.Empty(rt, sv.told())
	})
}

func TestAnotherPatternHoldsFromItsTextOn(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	const text = "a\n b\nc\n"
	heads := func(start *string) (all []string) {
		ended, rest := records(t, sv.mg, id, ScoreOptions{RecordStart: start}, text)
		sv.restart()
		for _, l := range append(ended, rest...) {
			all = append(all, string(l.Text))
		}
		return all
	}
	require.Equal(t, []string{"a\n b", "c"}, heads(nil))
	require.Equal(t, []string{"c", "a\n b", "c"}, heads(nil), "the record under way has ended")
	require.Equal(t, []string{"a", " b\nc"}, heads(new("b")), "that one ends untold")
	require.Equal(t, []string{" b\nc\na", " b\nc"}, heads(nil))
	require.Equal(t, []string{" b\nc\na", " b\nc"}, heads(new("b")), "it is the same pattern")
	require.Equal(t, []string{"a\n b", "c"}, heads(new("")))

	began := get(t, sv.mg, id).Offset - int64(len(text))
	for at, want := range map[int64]string{began + 2: "a\n b", began - 2: " b"} {
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		_, rest := records(t, sv.mg, info.ID, ScoreOptions{}, " b\n")
		require.Equal(t, want, string(rest[0].Text), "a fork from before the pattern has none")
	}
	ended, rest := records(t, sv.mg, id, ScoreOptions{Learn: LearnFalse, RecordStart: new("c")},
		text)
	require.Equal(t, []int{1, 1}, []int{len(ended), len(rest)})
	require.Equal(t, []string{"c", "a\n b", "c"}, heads(nil), "it was left as it was")
}

func TestWatchTellsRecords(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{})
	records(t, mg, id, ScoreOptions{}, "a\n")
	w := startWatch(t, mg, Caller{}, id, WatchOptions{Lines: true, Records: true, Text: true},
		false)
	score(t, mg, id, " b\n")
	score(t, mg, id, "c\n")
	events := w.upTo(t, 2+3+2)
	require.Len(t, events, 1, "nothing is told of a text in which no record ends")
	require.Empty(t, events[0].Chunk.Lines)
	require.Equal(t, "a\n b", string(events[0].Chunk.Records[0].Text))
	require.EqualValues(t, 2, events[0].Chunk.Records[0].Lines)
}
