package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func incidentText() string {
	var b strings.Builder
	for i := range 400 {
		if i >= 100 && i%60 == 40 {
			fmt.Fprintf(&b, "%d PANIC of shard %c\n", i%10, 'a'+i%26)
			continue
		}
		fmt.Fprintf(&b, "%d GET /%d\n", i%10, i*i%7)
	}
	return b.String()
}

func TestFeedbackIsDurableAndRevocable(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	text := incidentText()
	half := strings.Index(text, "\n0 ")
	_, err := feedLines(sv.mg, id, text[:half+1], ScoreOptions{Lines: true})
	require.NoError(t, err)
	_, err = feedLines(sv.mg, id, text[half+1:], ScoreOptions{Lines: true})
	require.NoError(t, err)
	list, err := sv.mg.Incidents(background, Caller{}, id)
	require.NoError(t, err)
	require.NotEmpty(t, list.Incidents)
	first := list.Incidents[len(list.Incidents)-1]
	require.Contains(t, first.Samples[0], "PANIC")
	require.Empty(t, first.Verdict)

	given, err := sv.mg.GiveFeedback(background, Caller{}, id,
		FeedbackRequest{first.Number, VerdictFalseAlarm})
	require.NoError(t, err)
	sv.restart()
	list, err = sv.mg.Incidents(background, Caller{}, id)
	require.NoError(t, err)
	require.Equal(t, given, list)
	require.Len(t, list.Feedback, 1)
	require.Equal(t, first.Samples[0], list.Feedback[0].Sample)
	require.Equal(t, VerdictFalseAlarm, list.Incidents[len(list.Incidents)-1].Verdict)

	list, err = sv.mg.GiveFeedback(background, Caller{}, id,
		FeedbackRequest{Incident: first.Number})
	require.NoError(t, err)
	require.Empty(t, list.Feedback)
	require.Empty(t, list.Incidents[len(list.Incidents)-1].Verdict)
}

func TestInvalidFeedbackChangesNothing(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	for _, r := range []FeedbackRequest{{1, VerdictMatters}, {1, "maybe"}} {
		_, err := mg.GiveFeedback(background, Caller{}, id, r)
		require.ErrorAs(t, err, new(*FieldError))
	}
	list, err := mg.Incidents(background, Caller{}, id)
	require.NoError(t, err)
	require.Empty(t, list.Feedback)
	_, err = mg.Incidents(background, Caller{Key: "other"}, id)
	require.ErrorIs(t, err, ErrNotFound)
}

// Requests for incidents and verdicts may wait for memory, so they count as waiting requests.
func TestFullQueueRefusesIncidentsAndVerdicts(t *testing.T) {
	mg := newManager(t, Options{Threads: 1, MaxQueue: 1})
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	_, err := feedLines(mg, id, incidentText(), ScoreOptions{Lines: true})
	require.NoError(t, err)
	requests := map[string]func(context.Context) error{
		"incidents": func(ctx context.Context) error {
			_, err := mg.Incidents(ctx, Caller{}, id)
			return err
		},
		"verdict": func(ctx context.Context) error {
			_, err := mg.GiveFeedback(ctx, Caller{}, id, FeedbackRequest{1, VerdictMatters})
			return err
		},
	}
	for name, request := range requests {
		done := make(chan error, 1)
		withSession(t, mg, id, func(*session) {
			go func() { done <- request(background) }()
			soon(t, name+" waits", func() bool { return mg.engine.waiting.length() == 1 })
			for other, request := range requests {
				ended, end := context.WithCancel(background)
				end() // a request that is not refused ends
				require.ErrorIs(t, request(ended), ErrOverloaded, "%s after %s", other, name)
			}
		})
		require.NoError(t, <-done)
	}
	require.Zero(t, mg.engine.waiting.length())
}

// A client can ask for incidents only. Then it gets the first line, the last line, and each line
// that opens, joins or ends an incident. The last report of an incident contains its final state.
func TestIncidentsAloneAreReported(t *testing.T) {
	mg := newManager(t, Options{})
	all := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	few := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	text := incidentText() + strings.Repeat("5 PANIC of shard a\n", 60) + incidentText()[:1000]
	report := func(id string, o ScoreOptions) (lines []Line, last *Line) {
		sum, err := mg.Score(background, Caller{}, id, strings.NewReader(text), o,
			func(c Chunk) error {
				lines = append(lines, c.Lines...)
				return nil
			})
		require.NoError(t, err)
		return lines, sum.Last
	}
	whole, last := report(all, ScoreOptions{Lines: true})
	require.Nil(t, last)
	got, last := report(few, ScoreOptions{Lines: true, Incidents: true})
	require.EqualValues(t, 1, got[0].Number)
	require.EqualValues(t, len(whole), last.Number)
	n, joined := 0, 0
	ends, told := map[int64]IncidentReport{}, map[int64]IncidentReport{}
	for i, l := range whole {
		for _, i := range l.Incidents {
			ends[i.Number] = i
		}
		switch {
		case l.news || i == 0:
			require.Equal(t, l.Number, got[n].Number)
			require.Subset(t, got[n].Incidents, l.Incidents)
			n++
		case l.Incidents != nil:
			joined++
		}
	}
	require.Len(t, got, n)
	require.Greater(t, n, 2)
	require.Greater(t, joined, n, "most lines only join an incident")
	for _, l := range append(got, *last) {
		for _, i := range l.Incidents {
			told[i.Number] = i
		}
	}
	require.Equal(t, ends, told)
}

// A request asks for incidents only. With the line that opens incident 2, it also gets the incident
// that an unreported line before has joined. A reader of all lines gets that line without it.
func TestWatchTellsOwnIncidentsOfLines(t *testing.T) {
	mg := newManager(t, Options{})
	text := incidentText() + "FATAL disk vanished\n"
	watched := func(o ScoreOptions) (incidents [][]IncidentReport) {
		id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
		_, err := feedLines(mg, id, "0 GET /0\n", ScoreOptions{Lines: true})
		require.NoError(t, err)
		w := startWatch(t, mg, Caller{}, id, WatchOptions{Lines: true}, false)
		_, err = feedLines(mg, id, text, o)
		require.NoError(t, err)
		for _, e := range w.upTo(t, get(t, mg, id).Offset) {
			for _, l := range e.Chunk.Lines {
				incidents = append(incidents, l.Incidents)
			}
		}
		return incidents
	}
	want := watched(ScoreOptions{Lines: true})
	require.Equal(t, want, watched(ScoreOptions{Lines: true, Incidents: true}))
}
