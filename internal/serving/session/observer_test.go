package session

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type observedIncident struct {
	of SessionRef
	l  Line
	i  IncidentReport
}

type observedList struct {
	session string
	all     []IncidentReport
}

type recorded struct {
	mu         sync.Mutex
	phases     []Phase
	learn      []string
	scored     Tally
	baseline   float64
	lines      []Line
	incidents  []observedIncident
	remembered []observedList
	compared   [2]Tally // totals of the followed sessions, totals of the shadows
	reasons    []string
	tokens     int
	snapshots  int
	replayed   int64

	loads, drops []string // names of loaded models, names of dropped models
	loadErrors   int

	snapshotErrors []error
}

func (r *recorded) Phase(_ context.Context, p Phase, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.IsZero() || ended.Before(began) {
		panic("a phase ends before it begins")
	}
	r.phases = append(r.phases, p)
}

func (r *recorded) Scored(_, learn string, t Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn = append(r.learn, learn)
	r.scored.Bytes += t.Bytes
	r.scored.Tokens += t.Tokens
	r.scored.Bits += t.Bits
	if t.BaselineBits != nil {
		r.baseline += *t.BaselineBits
	}
}

func (r *recorded) Line(_ string, l *Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, *l)
}

func (r *recorded) Incident(of SessionRef, l *Line, i *IncidentReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.incidents = append(r.incidents, observedIncident{of, *l, *i})
}

func (r *recorded) Incidents(of SessionRef, all []IncidentReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remembered = append(r.remembered, observedList{of.ID, all})
}

func (r *recorded) Left(string) {}

func (r *recorded) Compared(followed, shadow Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range []Tally{followed, shadow} {
		r.compared[i].Bytes += t.Bytes
		r.compared[i].Tokens += t.Tokens
		r.compared[i].Bits += t.Bits
	}
}

func (r *recorded) Completed(reason string, tokens int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons, r.tokens = append(r.reasons, reason), r.tokens+tokens
}

func (r *recorded) Snapshot(_ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.snapshots++
	} else {
		r.snapshotErrors = append(r.snapshotErrors, err)
	}
}

func (r *recorded) Replayed(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replayed += bytes
}

func (r *recorded) Loaded(model string, _ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads = append(r.loads, model)
	if err != nil {
		r.loadErrors++
	}
}

func (r *recorded) Claimed(bool) {}
func (r *recorded) Fenced()      {}

func (r *recorded) Dropped(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drops = append(r.drops, model)
}

func (r *recorded) has(p Phase) (n int) {
	for _, told := range r.phases {
		if told == p {
			n++
		}
	}
	return n
}

// An observer's totals equal the sums of what callers get. Every phase of a full chunk is reported
// once and in order, except that PhaseCommit and PhaseBackward may swap.
func TestObserverGetsWhatCallersGet(t *testing.T) {
	told := &recorded{}
	mg := newManager(t, Options{Observer: told})
	id := create(t, mg, CreateRequest{Settings: Settings{"baseline": true}})
	told.phases = nil // drops the phases of the request that made the session
	_, sum := score(t, mg, id, logText(2*testChunk))
	require.Equal(t, sum.Bytes, told.scored.Bytes)
	require.Equal(t, sum.Tokens, told.scored.Tokens)
	require.InDelta(t, sum.Bits, told.scored.Bits, 1e-9*sum.Bits)
	require.InDelta(t, *sum.BaselineBits, told.baseline, 1e-9*sum.Bits)
	require.Equal(t, []string{LearnTrue, LearnTrue}, told.learn)
	for i, p := range told.phases {
		if p == PhaseCommit && told.phases[i-1] == PhaseBackward {
			told.phases[i-1], told.phases[i] = PhaseCommit, PhaseBackward
		}
	}
	chunk := []Phase{PhaseQueue, PhaseForward, PhaseCommit, PhaseBackward, PhaseReport,
		PhaseUpdate, PhaseRemember}
	want := append([]Phase{PhaseTurn, PhaseOpen}, chunk...)
	want = append(append(want, PhaseOpen), chunk...)
	require.Equal(t, want, told.phases)

	complete(t, mg, id, CompleteRequest{MaxTokens: 5})
	require.Equal(t, []string{FinishLength}, told.reasons)
	require.Equal(t, 5, told.tokens)
	require.Positive(t, told.has(PhaseSample))
	stats := mg.Stats()
	require.Equal(t, 1, stats.Sessions)
	require.Equal(t, 1, stats.Hot)
	require.Positive(t, stats.MemoryBytes)
	require.Zero(t, stats.Waiting)
	require.Nil(t, stats.Disk, "the store is memory")

	require.NoError(t, mg.Delete(Caller{}, id))
	require.Zero(t, mg.Stats().Hot)
	require.Zero(t, mg.Stats().Sessions)
}

func TestObserverGetsLinesAndUnlearnedText(t *testing.T) {
	told := &recorded{}
	mg := newManager(t, Options{Observer: told})
	id := create(t, mg, CreateRequest{})
	text := strangeText()
	_, err := feedLines(mg, id, text, ScoreOptions{Lines: true, Learn: LearnFalse})
	require.NoError(t, err)
	require.EqualValues(t, len(text), told.scored.Bytes)
	require.Equal(t, strings.Count(text, "\n"), len(told.lines))
	for _, learn := range told.learn {
		require.Equal(t, LearnFalse, learn)
	}
	_, err = feedLines(mg, id, text, unflagged)
	require.NoError(t, err)
	flagged := 0
	for i := range told.lines {
		if told.lines[i].Unlearnt {
			flagged++
		}
	}
	require.Positive(t, flagged)
	require.Equal(t, LearnUnflagged, told.learn[len(told.learn)-1])
}

func TestObserverGetsBothEndsOfShadow(t *testing.T) {
	told := &recorded{}
	sv := newServer(t, t.TempDir(), Options{Observer: told})
	defer func() { sv.stop() }()
	of := create(t, sv.mg, CreateRequest{})
	id := shadow(t, sv.mg, of, CreateRequest{Settings: Settings{"method": MethodStatic}})
	compared := func() [2]Tally {
		told.mu.Lock()
		defer told.mu.Unlock()
		return told.compared
	}
	feedBoth := func() Comparison {
		score(t, sv.mg, of, logText(3*testChunk+5))
		return caughtUp(t, sv.mg, id)
	}
	c := feedBoth()
	for i, want := range []Tally{c.Followed, c.Shadow} {
		require.Eventually(t, func() bool { return compared()[i].Bytes == want.Bytes },
			time.Minute, time.Millisecond)
		require.Equal(t, want.Tokens, compared()[i].Tokens)
		require.InDelta(t, want.Bits, compared()[i].Bits, 1e-9*want.Bits)
	}
	require.NotEqual(t, compared()[0].Bits, compared()[1].Bits)
	sv.restart()
	before := compared()
	for range 2 {
		c = feedBoth()
	}
	require.Eventually(t, func() bool { return compared()[0].Bytes > before[0].Bytes },
		time.Minute, time.Millisecond)
	require.Less(t, compared()[0].Bytes, c.Followed.Bytes, "what was before the restart is not")
}

func TestObserverGetsEachLineOnce(t *testing.T) {
	told := &recorded{}
	mg := newManager(t, Options{Observer: told})
	of := create(t, mg, CreateRequest{})
	id := shadow(t, mg, of, CreateRequest{})
	text := strangeText()
	_, err := feedLines(mg, of, text, unflagged)
	require.NoError(t, err)
	caughtUp(t, mg, id)
	reader := startWatch(t, mg, Caller{}, of, WatchOptions{Lines: true}, false)
	score(t, mg, of, text)
	caughtUp(t, mg, id)
	reader.stop()
	require.ErrorIs(t, <-reader.ended, context.Canceled)
	require.Equal(t, strings.Count(text, "\n"), len(told.lines))
	require.EqualValues(t, 2*len(text), told.scored.Bytes)
}

func TestObserverGetsSnapshotsAndReplays(t *testing.T) {
	told := &recorded{}
	sv := &server{t: t, dir: t.TempDir(), options: Options{Observer: told, ReplayMax: time.Hour}}
	sv.start()
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	text := logText(3*testChunk + 5)
	score(t, sv.mg, id, text)
	require.NotNil(t, sv.mg.Stats().Disk)
	require.Positive(t, sv.mg.Stats().Disk.Sessions)
	sv.restart()
	require.Zero(t, sv.mg.Stats().Hot, "a session is cold after a restart")
	recoveries, before := told.has(PhaseRecover), told.replayed
	score(t, sv.mg, id, "more")
	require.Equal(t, recoveries+1, told.has(PhaseRecover))
	require.Equal(t, told.snapshots == 0, told.replayed-before == int64(len(text)),
		"without a snapshot all of the text is computed again")
	require.Equal(t, 1, sv.mg.Stats().Hot)
}
