package incidents

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func take(t *Tracker, from int64, lines ...Line) (events []Incident) {
	for n, l := range lines {
		l.Number, l.Offset = from+int64(n), 10*(from+int64(n))
		if l.Text == nil {
			l.Text = fmt.Appendf(nil, "line %d", l.Number)
		}
		if l.Why == nil {
			l.Why = func() Why { return Why{Token: fmt.Sprint(l.Key)} }
		}
		t.Take(&l, func(i *Incident) { events = append(events, *i) })
	}
	return events
}

func strange(key Mark) Line   { return Line{P: 1e-3, Key: key, Marks: []Mark{key}} }
func ordinary(m ...Mark) Line { return Line{P: .5, Marks: m} }

func TestLinesWithTheTokenJoinIncident(t *testing.T) {
	var tr Tracker
	lines := []Line{strange(7)}
	for range 59 { // after a few lines the token is no longer rated as strange
		lines = append(lines, ordinary(7, 1), ordinary(1))
	}
	events := take(&tr, 1000, lines...)
	require.EqualValues(t, 1, events[0].Lines, "opened")
	for _, e := range events[1:] {
		require.EqualValues(t, 1, e.Number, "one incident")
		require.Greater(t, e.Lines, int64(1))
	}
	i := tr.Incidents()[0]
	require.EqualValues(t, 60, i.Lines)
	require.EqualValues(t, 1, i.Strange)
	require.EqualValues(t, 1000, i.First)
	require.EqualValues(t, 1117, i.Last)
	require.Equal(t, [samplesMost]string{"line 1000", "line 1001", "line 1003"}, i.Samples)
}

func TestStrangeLinesJoinByRareTokenOrNearness(t *testing.T) {
	var tr Tracker
	first := strange(7)
	first.Rare = []Mark{7, 20}
	take(&tr, 100, first)
	far := strange(8)
	far.Rare = []Mark{20}
	require.Empty(t, take(&tr, 150, ordinary(9)), "an ordinary line joins nothing")
	require.EqualValues(t, 2, take(&tr, 160, far)[0].Lines, "it shares a rare token")
	require.EqualValues(t, 3, take(&tr, 161, strange(9))[0].Lines, "it follows directly")
	require.EqualValues(t, 1, tr.number)
	require.EqualValues(t, 1, take(&tr, 180, strange(10))[0].Lines, "it has nothing to do with it")
}

func TestIncidentClosesWhenQuietOrUsual(t *testing.T) {
	var tr Tracker
	take(&tr, 1, strange(7))
	var lines []Line
	for range quiet + 1 {
		lines = append(lines, ordinary(1))
	}
	events := take(&tr, 2, lines...)
	require.Len(t, events, 1)
	require.True(t, events[0].Closed)
	require.False(t, events[0].Stays)
	require.False(t, tr.Watches(.5))

	lines = []Line{strange(8)}
	for range stays {
		lines = append(lines, ordinary(8))
	}
	events = take(&tr, 1000, lines...)
	last := events[len(events)-1]
	require.True(t, last.Closed && last.Stays)
	require.EqualValues(t, stays, last.Lines)
}

func TestBlankLinesOpenNothing(t *testing.T) {
	var tr Tracker
	blank := strange(1)
	blank.Text = []byte(" \t\r")
	require.Empty(t, take(&tr, 1, blank))
}

func TestStateContinues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := rapid.Custom(func(rt *rapid.T) Line {
			l := Line{P: 1}
			if rapid.IntRange(0, 3).Draw(rt, "strange") == 0 {
				l.P = rapid.Float64Range(1e-9, Strange).Draw(rt, "p")
			}
			l.Marks = rapid.SliceOf(rapid.Custom(func(rt *rapid.T) Mark {
				return Mark(rapid.Uint64().Draw(rt, "mark") | 3)
			})).Draw(rt, "marks")
			l.Marks = append(l.Marks, Mark(rapid.Uint64Range(0, 4).Draw(rt, "common")))
			l.Key, l.Rare = l.Marks[len(l.Marks)-1], l.Marks
			l.Text = []byte(rapid.StringN(0, 300, 300).Draw(rt, "text"))
			return l
		})
		var one, two Tracker
		before := rapid.SliceOfN(draw, 0, 200).Draw(rt, "before")
		after := rapid.SliceOfN(draw, 0, 50).Draw(rt, "after")
		take(&one, 1, before...)
		state, err := one.MarshalText()
		require.NoError(rt, err)
		require.LessOrEqual(rt, len(state), StateBytesMax)
		require.NoError(rt, two.UnmarshalText(state))
		from := int64(len(before)) + 1
		require.Equal(rt, take(&one, from, after...), take(&two, from, after...))
		require.Equal(rt, one, two)
	})
}

func FuzzState(f *testing.F) {
	var tr Tracker
	take(&tr, 1, strange(7), strange(8))
	state, err := tr.MarshalText()
	require.NoError(f, err)
	f.Add(state)
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, state []byte) {
		var tr Tracker
		if err := tr.UnmarshalText(state); err != nil {
			require.ErrorIs(t, err, ErrState)
			return
		}
		take(&tr, 1<<40, strange(7), ordinary(7))
		again, err := tr.MarshalText()
		require.NoError(t, err)
		require.True(t, json.Valid(again))
	})
}
