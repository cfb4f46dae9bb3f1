package session

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func (r *recorded) told(session string) map[int64]IncidentReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[int64]IncidentReport{}
	for _, o := range r.incidents {
		if o.of.ID == session {
			all[o.i.Number] = o.i
		}
	}
	return all
}

// An observer gets all incidents of a session, even if no request asks for lines. It gets no
// incidents of text that was fed without learning, or that a fork copied from the original session.
func TestObserverGetsIncidents(t *testing.T) {
	told := &recorded{}
	sv := newServer(t, t.TempDir(), Options{Observer: told, ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	made, _, err := sv.mg.Put(background, Caller{}, "web", CreateRequest{
		Settings: Settings{"method": MethodStatic}, Labels: map[string]string{"a": "b"},
	})
	require.NoError(t, err)
	id := made.ID
	text := incidentText()
	cut := strings.Index(text, "PANIC") + 40
	_, err = feedLines(sv.mg, id, text[:cut], ScoreOptions{Lines: true})
	require.NoError(t, err)
	require.Len(t, told.told(id), 1)
	one := told.incidents[0]
	require.Equal(t, SessionRef{
		ID: id, Name: "web", Method: MethodStatic, Labels: map[string]string{"a": "b"},
	}, one.of)
	require.Contains(t, string(one.l.Text), "PANIC")
	require.Equal(t, one.l.Number, one.i.Last)

	fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	_, err = feedLines(sv.mg, id, text[cut:], ScoreOptions{})
	require.NoError(t, err)
	list, err := sv.mg.Incidents(background, Caller{}, id)
	require.NoError(t, err)
	after := told.told(id)
	for _, i := range list.Incidents {
		require.Equal(t, i.Closed, after[i.Number].Closed)
	}
	require.Len(t, after, len(list.Incidents))
	require.Greater(t, after[1].Lines, one.i.Lines)

	before := len(told.incidents)
	_, err = sv.mg.Score(background, Caller{}, id, strings.NewReader("FATAL error 17\n"),
		ScoreOptions{Lines: true, Learn: LearnFalse}, noChunks)
	require.NoError(t, err)
	require.Len(t, told.incidents, before)
	_, err = feedLines(sv.mg, fork.ID, "7 PANIC of shard a\n", ScoreOptions{Lines: true})
	require.NoError(t, err)
	require.Empty(t, told.told(fork.ID), "the incident is the parent's")
}

// After a restart, and when a verdict is given, an observer gets the latest incidents of the
// session. When the session is deleted, the observer gets an empty list.
func TestObserverGetsWhatSessionsRemember(t *testing.T) {
	told := &recorded{}
	sv := newServer(t, t.TempDir(), Options{Observer: told, ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{Settings: Settings{"method": MethodStatic}})
	_, err := feedLines(sv.mg, id, incidentText(), ScoreOptions{Lines: true})
	require.NoError(t, err)
	sv.restart()
	list, err := sv.mg.Incidents(background, Caller{}, id)
	require.NoError(t, err)
	require.Contains(t, told.remembered, observedList{id, list.Incidents})
	_, err = sv.mg.GiveFeedback(background, Caller{}, id,
		FeedbackRequest{Incident: 1, Verdict: VerdictFalseAlarm})
	require.NoError(t, err)
	last := told.remembered[len(told.remembered)-1].all
	require.Equal(t, VerdictFalseAlarm, last[len(last)-1].Verdict, "and with a verdict")
	require.NoError(t, sv.mg.Delete(Caller{}, id))
	require.Contains(t, told.remembered, observedList{id, nil})
}

// appended is a store that calls the function after at the end of each append.
type appended struct {
	storage.Store
	after func(id string, at int64)
}

func (a *appended) Append(
	ctx context.Context, id string, epoch uint64, at int64, records ...storage.Record,
) error {
	err := a.Store.Append(ctx, id, epoch, at, records...)
	a.after(id, at)
	return err
}

// A session is deleted while a line is appended that opens an incident. The observer gets no
// incident after the empty list, because nothing would end that incident.
func TestDeletedSessionReportsNoIncident(t *testing.T) {
	told := &recorded{}
	text := incidentText()
	cut := strings.Index(text, "PANIC") - 2
	store := &appended{Store: storage.NewMemory()}
	mg, deleted := newManager(t, Options{Observer: told, Store: store}), make(chan error, 1)
	store.after = func(id string, at int64) {
		if at == int64(cut) {
			deleted <- mg.Delete(Caller{}, id)
		}
	}
	id := create(t, mg, CreateRequest{Settings: Settings{"method": MethodStatic, "chunk": cut}})
	_, err := feedLines(mg, id, text[:cut], ScoreOptions{Lines: true})
	require.NoError(t, err)
	_, err = feedLines(mg, id, text[cut:], ScoreOptions{Lines: true})
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, <-deleted)
	require.Contains(t, told.remembered, observedList{id, nil})
	require.Empty(t, told.told(id))
}
