package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

// sources returns a source for each model. Each call of a source loads a new copy of the model.
func sources(t fatal, all ...*model.Model) (list []*model.Source) {
	t.Helper()
	for _, m := range all {
		from, _, err := model.NewSource(func() (*model.Model,
			error) {
			return model.FromFile(m.File())
		})
		require.NoError(t, err)
		list = append(list, from)
	}
	return list
}

// newDurable is like newManager, but stores sessions on disk. With such a store, sessions need
// memory only while they are in use.
func newDurable(t *testing.T, o Options) *Manager {
	sv := newServer(t, t.TempDir(), o)
	t.Cleanup(sv.stop)
	return sv.mg
}

func manyModels(t testing.TB, n int) (all []*model.Model) {
	t.Helper()
	for i := range n {
		m, err := modeltest.New(uint64(20 + i))
		require.NoError(t, err)
		all = append(all, m)
	}
	return all
}

func TestModelIsLoadedOnceWhenItIsFirstNeeded(t *testing.T) {
	other := otherModel(t)
	var loads atomic.Int32
	from, _, err := model.NewSource(func() (*model.Model, error) {
		if loads.Add(1) > 1 { // the first load was only for the description of the model
			time.Sleep(20 * time.Millisecond)
		}
		return model.FromFile(other.File())
	})
	require.NoError(t, err)
	told := &recorded{}
	mg := newDurable(t, Options{Others: []*model.Source{from}, Observer: told, Threads: 4})
	require.Zero(t, mg.index.budget.Used())
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = create(t, mg, CreateRequest{Model: other.ID()})
	}
	require.False(t, mg.Models()[1].Loaded, "no text, no weights")
	require.True(t, mg.Models()[0].Loaded)
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() { score(t, mg, id, logText(3*testChunk)) })
	}
	all.Wait()
	require.EqualValues(t, 2, loads.Load())
	require.Equal(t, []string{other.ID()}, told.loads)
	require.True(t, mg.Models()[1].Loaded)
	state := get(t, mg, ids[0]).MemoryBytes
	require.Equal(t, int64(len(ids))*state+from.Bytes, mg.index.budget.Used(), "once for all")
	require.Equal(t, len(ids), mg.engine.models[1].memory.Users())
	for _, id := range ids {
		requireSame(t, mg, id, other, logText(3*testChunk))
	}
}

func TestUnloadableModelLeavesServerServing(t *testing.T) {
	other, broken := otherModel(t), errors.New("the file is gone")
	var fails atomic.Bool
	from, _, err := model.NewSource(func() (*model.Model, error) {
		if fails.Load() {
			return nil, broken
		}
		return model.FromFile(other.File())
	})
	require.NoError(t, err)
	told := &recorded{}
	mg := newDurable(t, Options{Others: []*model.Source{from}, Observer: told})
	id := create(t, mg, CreateRequest{Model: other.ID()})
	fails.Store(true)
	for range 2 {
		_, err = mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{}, nil)
		var failed *ModelLoadError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, broken)
		require.Equal(t, other.ID(), failed.ID)
	}
	err = mg.CompleteBatch(background, Caller{}, "", BatchRequest{
		Model: other.ID(), Prompts: [][]byte{[]byte("a")}, N: 1, MaxTokens: 1,
	}, noPieces)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 3, told.loadErrors)
	require.Zero(t, mg.engine.models[1].memory.Users())
	here := create(t, mg, CreateRequest{})
	score(t, mg, here, logText(40))
	requireSame(t, mg, here, testModel(t), logText(40))
	require.Zero(t, get(t, mg, id).Offset)
	fails.Store(false)
	score(t, mg, id, logText(40))
	requireSame(t, mg, id, other, logText(40))
}

func TestChangedFileIsNotLoaded(t *testing.T) {
	now := otherModel(t)
	from, _, err := model.NewSource(func() (*model.Model, error) { return now, nil })
	require.NoError(t, err)
	mg := newDurable(t, Options{Others: []*model.Source{from}})
	id := create(t, mg, CreateRequest{Model: now.ID()})
	now = manyModels(t, 1)[0]
	_, err = mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{}, nil)
	require.ErrorIs(t, err, model.ErrOther)
	require.ErrorContains(t, err, now.ID())
}

func roomFor(t testing.TB, m *model.Model, states int64) int64 {
	t.Helper()
	probe := newManager(t, Options{})
	return m.WeightsBytes() + states*get(t, probe, create(t, probe, CreateRequest{})).MemoryBytes
}

// There is memory for only one model besides the default model, so the server loads and drops the
// models in turn. After its model was loaded again, a session gives bit-identical results.
func TestModelsShareMemoryInTurns(t *testing.T) {
	all := manyModels(t, 2)
	most := roomFor(t, all[0], 1)
	told := &recorded{}
	sv := newServer(t, t.TempDir(), Options{
		Others: sources(t, all...), MaxMemoryBytes: most, Observer: told, Threads: 2,
	})
	defer func() { sv.stop() }()
	ids := []string{
		create(t, sv.mg, CreateRequest{Model: all[0].ID()}),
		create(t, sv.mg, CreateRequest{Model: all[1].ID()}),
	}
	score(t, sv.mg, ids[0], logText(40))
	weights := weak.Make(sv.mg.engine.models[1].current())
	require.NotNil(t, weights.Value())
	score(t, sv.mg, ids[1], logText(40))
	require.Nil(t, sv.mg.engine.models[1].current())
	require.Equal(t, []string{all[0].ID()}, told.drops)
	require.Eventually(t, func() bool { runtime.GC(); return weights.Value() == nil },
		10*time.Second,
		time.Millisecond, "nothing holds the weights that were dropped")
	for range 3 {
		for _, id := range ids {
			score(t, sv.mg, id, logText(40))
			require.LessOrEqual(t, sv.mg.index.budget.Used(), most)
		}
	}
	for i, id := range ids {
		requireSame(t, sv.mg, id, all[i], strings.Repeat(logText(40), 4))
	}
	_, err := sv.mg.Create(background, Caller{}, CreateRequest{
		Model: all[0].ID(), Settings: Settings{"companion_bytes": 1 << 22},
	})
	require.ErrorIs(t, err, ErrFull, "it would never fit beside the weights")
}

// Sessions of three models are used at the same time, with memory for only one model and two
// states. All requests complete, because a session that waits for memory holds no memory.
func TestRequestsOfManyModelsDoNotWaitForEachOther(t *testing.T) {
	all := manyModels(t, 3)
	most := roomFor(t, all[0], 2)
	sv := newServer(t, t.TempDir(), Options{
		Others: sources(t, all...), MaxMemoryBytes: most, Threads: 4,
	})
	defer func() { sv.stop() }()
	served := append([]*model.Model{testModel(t)}, all...)
	text := logText(2*testChunk + 3)
	var working sync.WaitGroup
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = create(t, sv.mg, CreateRequest{Model: served[i%len(served)].ID()})
		working.Go(func() {
			for at := 0; at < len(text); at += 7 {
				piece := text[at:min(at+7, len(text))]
				_, err := sv.mg.Score(background, Caller{}, ids[i], strings.NewReader(piece),
					ScoreOptions{}, noChunks)
				if err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			}
		})
	}
	working.Wait()
	require.LessOrEqual(t, sv.mg.index.budget.Used(), most)
	for i, id := range ids {
		requireSame(t, sv.mg, id, served[i%len(served)], text)
	}
}

func TestUnusedModelStaysUntilMemoryIsNeeded(t *testing.T) {
	other := otherModel(t)
	state := roomFor(t, other, 1) - other.WeightsBytes()
	sv := newServer(t, t.TempDir(), Options{
		Others: sources(t, other), MaxMemoryBytes: other.WeightsBytes() + 3*state,
	})
	defer func() { sv.stop() }()
	old := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, old, "x")
	on := create(t, sv.mg, CreateRequest{Model: other.ID()})
	score(t, sv.mg, on, "x")
	require.NoError(t, sv.mg.Delete(Caller{}, on))
	require.True(t, sv.mg.Models()[1].Loaded, "it may be needed again")
	for range 2 {
		score(t, sv.mg, create(t, sv.mg, CreateRequest{}), "x")
	}
	require.True(t, sv.mg.Models()[1].Loaded, "there was room")
	score(t, sv.mg, create(t, sv.mg, CreateRequest{}), "x")
	require.True(t, sv.mg.Models()[1].Loaded)
	require.Zero(t, get(t, sv.mg, old).MemoryBytes, "its state was used before the weights")
	score(t, sv.mg, create(t, sv.mg, CreateRequest{}), "x")
	require.False(t, sv.mg.Models()[1].Loaded)
}

func TestForksExportsAndCompletionsLoadTheModelTheyNeed(t *testing.T) {
	other := otherModel(t)
	sv := newServer(t, t.TempDir(), Options{Others: sources(t, other)})
	defer func() { sv.stop() }()
	text := logText(3 * testChunk)
	drop := func() {
		sv.restart()
		require.False(t, sv.mg.Models()[1].Loaded)
	}
	id := create(t, sv.mg, CreateRequest{Model: other.ID()})
	score(t, sv.mg, id, text)
	drop()
	fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: ptr(int64(20))})
	require.NoError(t, err)
	require.Equal(t, other.ID(), fork.Model)
	requireSame(t, sv.mg, fork.ID, other, text[:20])
	drop()
	var file bytes.Buffer
	require.NoError(t, sv.mg.Export(background, Caller{}, id, 0, &file, nil))
	drop()
	got, err := sv.mg.Import(background, Caller{}, &file, "")
	require.NoError(t, err)
	requireSame(t, sv.mg, got.ID, other, text)
	drop()
	_, err = sv.mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 3}, noPieces)
	require.NoError(t, err)
	drop()
	_, err = sv.mg.Score(background, Caller{}, id, strings.NewReader(text),
		ScoreOptions{Learn: LearnFalse}, noChunks)
	require.NoError(t, err)
	drop()
	require.NoError(t, sv.mg.CompleteBatch(background, Caller{}, "", BatchRequest{
		Model: other.ID(), Prompts: [][]byte{[]byte("GET")}, N: 1, MaxTokens: 3,
	}, noPieces))
	require.True(t, sv.mg.Models()[1].Loaded)
	require.Zero(t, sv.mg.engine.models[1].memory.Users())
}

// If weights are not loaded within the time limit of a request, the request fails. The loading
// continues for the next request.
func TestRequestWaitsForWeightsOnlyAsLongAsItMay(t *testing.T) {
	other, gate := otherModel(t), make(chan struct{})
	var first sync.Once
	from, _, err := model.NewSource(func() (*model.Model, error) {
		known := false
		first.Do(func() { known = true })
		if !known {
			<-gate
		}
		return model.FromFile(other.File())
	})
	require.NoError(t, err)
	mg := newDurable(t, Options{Others: []*model.Source{from}})
	id := create(t, mg, CreateRequest{Model: other.ID()})
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err = mg.Score(ctx, Caller{}, id, strings.NewReader("x"), ScoreOptions{}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, mg.engine.models[1].memory.Users())
	here := create(t, mg, CreateRequest{})
	score(t, mg, here, logText(40))
	close(gate)
	score(t, mg, id, logText(40))
	requireSame(t, mg, id, other, logText(40))
}

func TestModelIsFoundByIDNameOrShortName(t *testing.T) {
	m := *testModel(t)
	m.Name = model.NamePrefix + "tiny"
	for name, is := range map[string]bool{
		m.ID(): true, "lmserve-tiny": true, "tiny": true, "": false, "lmserve-": false,
		"small": false,
	} {
		which := model.WhichNamed([]string{m.ID()}, []string{m.Name}, name)
		require.Equal(t, is, len(which) == 1, fmt.Sprintf("%q", name))
	}
}

func TestSharedModelNameIsRefused(t *testing.T) {
	version, other := otherModel(t), manyModels(t, 1)[0]
	version.Name, other.Name = testModel(t).Name, "another"
	mg := newManager(t, Options{Others: sources(t, version, other)})
	first, second := testModel(t).ID(), version.ID()
	for _, name := range []string{first, second, "another"} {
		create(t, mg, CreateRequest{Model: name})
	}
	_, err := mg.Create(background, Caller{}, CreateRequest{Model: version.Name})
	var wrong *FieldError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, FieldError{"model", fmt.Sprintf("%q, a name that 2 models "+
		"share", version.Name),
		"the id of one model: " + first + ", " + second}, *wrong)
	require.Len(t, ModelsNamed(mg.Models(), version.Name), 2)
	require.Len(t, ModelsNamed(mg.Models(), second), 1)
	require.Empty(t, ModelsNamed(mg.Models(), "none"))
}

// If the store is in memory, a session gets its state when it is made. If the weights cannot be
// loaded, the session is not made.
func TestSessionInMemoryIsNotMadeWithoutItsModel(t *testing.T) {
	other, broken := otherModel(t), errors.New("the file is gone")
	var fails atomic.Bool
	from, _, err := model.NewSource(func() (*model.Model, error) {
		if fails.Load() {
			return nil, broken
		}
		return model.FromFile(other.File())
	})
	require.NoError(t, err)
	mg := newManager(t, Options{Others: []*model.Source{from}})
	fails.Store(true)
	_, err = mg.Create(background, Caller{}, CreateRequest{Model: other.ID()})
	require.ErrorIs(t, err, broken)
	require.Zero(t, mg.Stats().Sessions)
	fails.Store(false)
	id := create(t, mg, CreateRequest{Model: other.ID()})
	score(t, mg, id, logText(40))
	requireSame(t, mg, id, other, logText(40))
}

// A request stops waiting for weights, and the budget drops them before they are loaded. A second
// request has joined the wait meanwhile.
func TestWeightsLoadedForLaterRequestAreKept(t *testing.T) {
	other := otherModel(t)
	loading, loads := make(chan struct{}), make(chan struct{}, 10)
	var slow atomic.Bool
	from, _, err := model.NewSource(func() (*model.Model, error) {
		if slow.Load() {
			loads <- struct{}{}
			<-loading
		}
		return model.FromFile(other.File())
	})
	require.NoError(t, err)
	mg := newDurable(t, Options{Others: []*model.Source{from}, Threads: 2})
	first := create(t, mg, CreateRequest{Model: other.ID()})
	second := create(t, mg, CreateRequest{Model: other.ID()})
	slow.Store(true)
	ctx, cancel := context.WithCancel(background)
	failed := make(chan error)
	go func() {
		_, err := mg.Score(ctx, Caller{}, first, strings.NewReader("a"), ScoreOptions{}, noChunks)
		failed <- err
	}()
	<-loads
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	large := mg.engine.budget.OpenOn(nil, nil)
	want, err := large.Reserve(mg.engine.budget.Max())
	require.NoError(t, err)
	require.Nil(t, want.Changed)
	large.Close()
	scored := make(chan error)
	go func() {
		_, err := mg.Score(background, Caller{}, second, strings.NewReader("a"), ScoreOptions{},
			noChunks)
		scored <- err
	}()
	served := mg.engine.models[1]
	soon(t, "reserved", func() bool { return served.memory.Users() == 1 })
	time.Sleep(20 * time.Millisecond)
	close(loading)
	require.NoError(t, <-scored)
	require.True(t, mg.Models()[1].Loaded)
}
