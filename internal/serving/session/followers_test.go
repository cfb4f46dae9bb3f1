package session

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

func otherModel(t fatal) *model.Model {
	m, err := modeltest.New(8)
	require.NoError(t, err)
	return m
}

func shadow(t fatal, mg *Manager, of string, r CreateRequest) string {
	t.Helper()
	r.ShadowOf = of
	return create(t, mg, r)
}

// caughtUp waits until a shadow has read all text of the followed session. It returns the
// comparison of their totals.
func caughtUp(t fatal, mg *Manager, id string) Comparison {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		link := get(t, mg, id).ShadowOf
		require.NotNil(t, link)
		if link.Behind == 0 {
			require.NoError(t, link.Err)
			require.Equal(t, link.Offset, link.Compared.Offset)
			return *link.Compared
		}
	}
	require.Fail(t, "the shadow stays behind")
	return Comparison{}
}

func TestShadowEqualsSessionFedSameText(t *testing.T) {
	words := wordModel(t)
	other := otherModel(t)
	rapid.Check(t, func(rt *rapid.T) {
		on := rapid.SampledFrom([]*model.Model{testModel(t), other, words}).Draw(rt, "model")
		r := drawRequest(rt)
		r.Model = on.ID()
		if on == words {
			r.Settings["method"], r.Settings["chunk"] = MethodSparseMeta, testChunk
		}
		text := wordText(rapid.IntRange(1, 12*testChunk).Draw(rt, "bytes"))
		dir := tempDir(t, rt)
		sv := newServer(rt, dir, Options{Others: sources(rt, other, words)})
		defer func() { sv.stop() }()
		of := create(rt, sv.mg, CreateRequest{})
		before := rapid.IntRange(0, len(text)).Draw(rt, "bytes before the shadow")
		score(rt, sv.mg, of, text[:before])
		id := shadow(rt, sv.mg, of, r)
		for _, piece := range cut(rt, text[before:], 3*testChunk) {
			score(rt, sv.mg, of, piece)
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				sv.restart()
			case 1:
				sv.evict(id)
			case 2:
				sv.evict(of)
			case 3:
				caughtUp(rt, sv.mg, id)
			}
		}
		c := caughtUp(rt, sv.mg, id)
		want, _ := alone(rt, on, r, text)
		require.Equal(rt, want.Hash(), hash(rt, sv.mg, id))
		require.Equal(rt, text, logged(rt, sv.mg, id))
		require.Equal(rt, get(rt, sv.mg, id).Tally, c.Shadow)
		require.Equal(rt, get(rt, sv.mg, of).Tally, c.Followed)
		require.Equal(rt, want.Tally.Bits, c.Shadow.Bits)
		require.Empty(rt, sv.told())
	})
}

// A shadow with the settings of the followed session skips the same lines in learning. So both
// sessions have the same state.
func TestShadowLearnsWhatItsSessionLearns(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	r := CreateRequest{Seed: ptr(uint64(5))}
	of := create(t, sv.mg, r)
	first := strings.Repeat("GET /a -> 200\n", 60)
	score(t, sv.mg, of, "before lines")
	_, err := feedLines(sv.mg, of, first, ScoreOptions{Lines: true, Learn: LearnTrue})
	require.NoError(t, err)
	id := shadow(t, sv.mg, of, r)
	o := ScoreOptions{Lines: true, Learn: LearnUnflagged, Threshold: .5}
	for range 4 {
		sum, err := feedLines(sv.mg, of, "GET /a -> 200\nxyzzy ZZZ !!!\nGET /a -> 2", o)
		require.NoError(t, err)
		require.Positive(t, sum.Chunks)
		caughtUp(t, sv.mg, id)
		sv.restart()
		_, err = feedLines(sv.mg, of, "00\n", o)
		require.NoError(t, err)
	}
	caughtUp(t, sv.mg, id)
	require.Equal(t, hash(t, sv.mg, of), hash(t, sv.mg, id))
	require.Equal(t, get(t, sv.mg, of).Tally, get(t, sv.mg, id).Tally)
	withSession(t, sv.mg, id, func(s *session) { require.True(t, s.ByLine) })
	// MethodCache learns from all text, including the skipped lines.
	cache := shadow(t, sv.mg, of, CreateRequest{Settings: Settings{"method": MethodCache}})
	caughtUp(t, sv.mg, cache)
}

func TestShadowIsFedByItsSessionAlone(t *testing.T) {
	mg := newManager(t, Options{})
	of := create(t, mg, CreateRequest{})
	id := shadow(t, mg, of, CreateRequest{})
	score(t, mg, of, logText(40))
	caughtUp(t, mg, id)
	var is *ShadowError
	_, err := mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{}, noChunks)
	require.ErrorAs(t, err, &is)
	require.Equal(t, ShadowError{ID: id, Of: of}, *is)
	_, err = mg.Complete(background, Caller{}, id,
		CompleteRequest{Prompt: []byte("x"), MaxTokens: 1, Commit: CommitPrompt}, noPieces)
	require.ErrorAs(t, err, &is)
	_, err = mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 3}, noPieces)
	require.NoError(t, err)
	_, err = mg.Score(background, Caller{}, id, strings.NewReader("x"),
		ScoreOptions{Learn: LearnFalse}, noChunks)
	require.NoError(t, err)
	require.EqualValues(t, 40, get(t, mg, id).Offset)
	info := get(t, mg, of)
	require.Len(t, info.Shadows, 1)
	require.Equal(t, id, info.Shadows[0].ID)
	require.Nil(t, info.ShadowOf)
}

// A client's request to a shadow has normal priority. Only the server's own feeding of shadows has
// low priority.
func TestRequestToShadowIsNotBehindOthers(t *testing.T) {
	mg := newManager(t, Options{})
	of := create(t, mg, CreateRequest{})
	id := shadow(t, mg, of, CreateRequest{})
	score(t, mg, of, logText(40))
	caughtUp(t, mg, id)
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.True(t, s.job().Behind)
	pieces := 0
	_, err = mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 3},
		func(Piece) error {
			pieces++
			require.False(t, s.job().Behind)
			return nil
		})
	require.NoError(t, err)
	require.Positive(t, pieces)
	require.True(t, s.job().Behind)
}

func TestWhatCanBeFollowed(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	mg := sv.mg
	refused := func(of, part string) {
		t.Helper()
		_, err := mg.Create(background, Caller{}, CreateRequest{ShadowOf: of})
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "shadow_of", wrong.Field)
		require.Contains(t, wrong.Error(), part)
	}
	refused("nobody", "the id or the name of a session")
	of := create(t, mg, CreateRequest{})
	id := shadow(t, mg, of, CreateRequest{})
	refused(id, "a session that is not a shadow")
	for range ShadowsMax - 1 {
		shadow(t, mg, of, CreateRequest{})
	}
	refused(of, "4 shadows")
	tail := create(t, mg, CreateRequest{History: HistoryTail})
	for range 2 {
		score(t, mg, tail, logText(3*testChunk))
		sv.keep(tail)
	}
	refused(tail, "without its text before offset")
	_, err := mg.Create(background, Caller{Key: "other"}, CreateRequest{ShadowOf: of})
	require.ErrorAs(t, err, new(*FieldError), "of a session that does not exist for the caller")
}

func TestShadowIsSeenByItsOwner(t *testing.T) {
	mg := newManager(t, Options{})
	alice, admin := Caller{Key: "alice"}, Caller{Key: "boss", Admin: true, MaxSessions: 1}
	info, err := mg.Create(background, alice, CreateRequest{})
	require.NoError(t, err)
	made, err := mg.Create(background, admin, CreateRequest{ShadowOf: info.ID})
	require.NoError(t, err)
	require.Equal(t, info.ID, made.ShadowOf.ID)
	_, err = mg.Create(background, admin, CreateRequest{ShadowOf: info.ID})
	require.ErrorAs(t, err, new(*QuotaError))
	seen, err := mg.Get(alice, info.ID)
	require.NoError(t, err)
	require.Empty(t, seen.Shadows)
	seen, err = mg.Get(admin, info.ID)
	require.NoError(t, err)
	require.Len(t, seen.Shadows, 1)
	require.NoError(t, mg.Delete(alice, info.ID))
	_, err = mg.Get(admin, made.ID)
	require.ErrorIs(t, err, ErrNotFound, "it has the text that was deleted")
}

// A failed feeding of a shadow is retried after pauses. The shadow continues when feeding works
// again.
func TestFeedingShadowIsRetried(t *testing.T) {
	told := &recorded{}
	sv := newServer(t, t.TempDir(), Options{Observer: told})
	defer func() { sv.stop() }()
	mg := sv.mg
	mg.follower.rest = 50 * time.Millisecond
	of := create(t, mg, CreateRequest{})
	boss := Caller{Key: "boss", Admin: true, MaxDisk: 1 << 20}
	made, err := mg.Create(background, boss, CreateRequest{ShadowOf: of})
	require.NoError(t, err)
	mg.engine.disk.Limit(boss.Key, 1)
	tries := func() int {
		told.mu.Lock()
		defer told.mu.Unlock()
		return told.has(PhaseTurn)
	}
	link := func() *Shadow {
		info, err := mg.Get(boss, made.ID)
		require.NoError(t, err)
		return info.ShadowOf
	}
	for range 20 {
		score(t, mg, of, logText(testChunk))
		require.Eventually(t, func() bool { return link().Err != nil }, time.Minute,
			time.Millisecond)
	}
	require.ErrorAs(t, link().Err, new(*DiskLimitError))
	before := tries()
	time.Sleep(500 * time.Millisecond)
	require.LessOrEqual(t, tries()-before, 11)
	require.Eventually(t, func() bool { return tries() > before }, time.Minute, time.Millisecond)
	mg.engine.disk.Limit(boss.Key, 0)
	require.Eventually(t, func() bool { return link().Behind == 0 }, time.Minute, time.Millisecond)
}

func TestShadowEndsWithItsSession(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	text := logText(100 * testChunk)
	var ahead atomic.Int64
	sv.mg.index.clock.read = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	for what, end := range map[string]func(of string){
		"deleted": func(of string) { require.NoError(t, sv.mg.Delete(Caller{}, of)) },
		"expired": func(of string) {
			ahead.Store(int64(2 * time.Hour))
			defer ahead.Store(0)
			_, _, err := sv.mg.List(Caller{}, "", 10)
			require.NoError(t, err)
		},
	} {
		of := create(t, sv.mg, CreateRequest{TTL: time.Hour})
		id := shadow(t, sv.mg, of, CreateRequest{})
		score(t, sv.mg, of, text)
		if what == "expired" {
			caughtUp(t, sv.mg, id)
		}
		end(of)
		for _, gone := range []string{of, id} {
			_, err := sv.mg.Get(Caller{}, gone)
			require.ErrorIs(t, err, ErrNotFound, what)
			_, err = sv.store.Get(background, gone)
			require.Error(t, err, what)
		}
	}
	of := create(t, sv.mg, CreateRequest{})
	require.NoError(t, sv.mg.Delete(Caller{}, shadow(t, sv.mg, of, CreateRequest{})))
	require.Empty(t, get(t, sv.mg, of).Shadows, "the session stays")
}

func TestDetachedShadowIsOrdinarySession(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	of := create(t, sv.mg, CreateRequest{})
	id := shadow(t, sv.mg, of, CreateRequest{})
	score(t, sv.mg, of, logText(200*testChunk))
	info, err := sv.mg.Patch(background, Caller{}, id, PatchRequest{Detach: true})
	require.NoError(t, err)
	require.Nil(t, info.ShadowOf)
	at := info.Offset
	score(t, sv.mg, of, "more")
	require.Empty(t, get(t, sv.mg, of).Shadows)
	_, sum := score(t, sv.mg, id, "its own")
	require.EqualValues(t, at+7, sum.Offset)
	requireFed(t, sv.mg, id, logText(200 * testChunk)[:at]+"its own")
	require.NoError(t, sv.mg.Delete(Caller{}, of))
	sv.restart()
	require.Nil(t, get(t, sv.mg, id).ShadowOf)
}

func TestWhatIsMadeOfAShadowIsNone(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	of := create(t, sv.mg, CreateRequest{})
	id := shadow(t, sv.mg, of, CreateRequest{})
	score(t, sv.mg, of, logText(50))
	caughtUp(t, sv.mg, id)
	forked, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	require.Nil(t, forked.ShadowOf)
	var file bytes.Buffer
	require.NoError(t, sv.mg.Export(background, Caller{}, id, 0, &file, nil))
	imported, err := sv.mg.Import(background, Caller{}, &file, "")
	require.NoError(t, err)
	require.Nil(t, imported.ShadowOf)
	for _, made := range []string{forked.ID, imported.ID} {
		_, sum := score(t, sv.mg, made, "goes on")
		require.EqualValues(t, 57, sum.Offset)
		require.Equal(t, hash(t, sv.mg, forked.ID), hash(t, sv.mg, forked.ID))
	}
	require.EqualValues(t, 50, get(t, sv.mg, id).Offset)
}

// Text that a shadow has not read yet is kept, even if the followed session keeps only the end of
// its text (HistoryTail).
func TestTailIsKeptUntilShadowHasReadIt(t *testing.T) {
	for _, durable := range []bool{true, false} {
		o := Options{ReplayMax: time.Nanosecond} // causes a snapshot after every chunk
		sv := &server{t: t, dir: t.TempDir(), options: o}
		mg := (*Manager)(nil)
		if durable {
			sv.start()
			mg = sv.mg
		} else {
			mg = newManager(t, o)
		}
		of := create(t, mg, CreateRequest{History: HistoryTail})
		id := shadow(t, mg, of, CreateRequest{})
		text := logText(60 * testChunk)
		score(t, mg, of, text)
		caughtUp(t, mg, id)
		requireFed(t, mg, id, text)
		score(t, mg, of, logText(4*testChunk))
		caughtUp(t, mg, id)
		found, err := mg.engine.store.Get(context.Background(), of)
		require.NoError(t, err)
		require.Positive(t, found.Start, "what was read goes")
		if durable {
			sv.stop()
		}
	}
}

func TestSessionRunsOnRequestedModel(t *testing.T) {
	small, other := testModel(t), otherModel(t)
	_, err := NewManager(small, Options{Others: sources(t, other, small)})
	require.ErrorContains(t, err, "given twice")
	dir := t.TempDir()
	sv := newServer(t, dir, Options{Others: sources(t, other)})
	require.Equal(t, []string{small.ID(), other.ID()},
		[]string{sv.mg.Models()[0].ID, sv.mg.Models()[1].ID})
	_, err = sv.mg.Create(background, Caller{}, CreateRequest{Model: "none"})
	require.ErrorContains(t, err, other.ID())
	ids := map[string]*model.Model{}
	for _, m := range []*model.Model{small, other} {
		ids[create(t, sv.mg, CreateRequest{Model: m.ID()})] = m
	}
	for n := range 3 {
		for id, m := range ids {
			_, sum := score(t, sv.mg, id, logText(20))
			require.EqualValues(t, 20*(n+1), sum.Offset)
			about, err := sv.mg.ModelOf(Caller{}, id)
			require.NoError(t, err)
			require.Equal(t, m.ID(), about.ID)
		}
	}
	for id, m := range ids {
		requireSame(t, sv.mg, id, m, strings.Repeat(logText(20), 3))
		var file bytes.Buffer
		require.NoError(t, sv.mg.Export(background, Caller{}, id, 0, &file, nil))
		info, err := sv.mg.Import(background, Caller{}, &file, "")
		require.NoError(t, err)
		require.Equal(t, m.ID(), info.Model)
	}
	named := CreateRequest{Model: other.Name, Seed: ptr(uint64(3))}
	named.Model = other.ID()
	_, made, err := sv.mg.Put(background, Caller{}, "stream", named)
	require.NoError(t, err)
	require.True(t, made)
	_, made, err = sv.mg.Put(background, Caller{}, "stream", CreateRequest{})
	require.NoError(t, err)
	require.False(t, made)
	_, _, err = sv.mg.Put(background, Caller{}, "stream", CreateRequest{Model: small.ID()})
	require.ErrorAs(t, err, new(*DifferError))
	sv.stop()
	sv.options.Others = nil
	sv.start()
	defer sv.stop()
	for id, m := range ids {
		require.Equal(t, m == other, get(t, sv.mg, id).Err != nil)
	}
}

// creatingStore calls the function before at each creation of a session.
type creatingStore struct {
	storage.Store
	before func()
}

func (s *creatingStore) Create(
	ctx context.Context, id string, head []byte, start int64,
) (uint64, error) {
	s.before()
	return s.Store.Create(ctx, id, head, start)
}

// The followed session's text is trimmed while the shadow is made. The shadow could never get this
// text, and the session would keep all later text for the shadow.
func TestSessionTrimmedMeanwhileGetsNoShadow(t *testing.T) {
	store := &creatingStore{before: func() {}}
	sv := &server{t: t, dir: t.TempDir(), options: Options{ReplayMax: time.Nanosecond}}
	sv.wrap = func(s storage.Store) storage.Store { store.Store = s; return store }
	sv.start()
	defer func() { sv.stop() }()
	of := create(t, sv.mg, CreateRequest{History: HistoryTail})
	store.before = func() { score(t, sv.mg, of, logText(9*testChunk)) }
	_, err := sv.mg.Create(background, Caller{}, CreateRequest{ShadowOf: of})
	var refused *FieldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "shadow_of", refused.Field)
	require.Empty(t, get(t, sv.mg, of).Shadows)
}

// The store detaches a shadow, but its answer is lost.
func TestDetachOfUnknownOutcomeEndsFeeding(t *testing.T) {
	sv, store := faulty(t, Options{})
	of := create(t, sv.mg, CreateRequest{})
	id := shadow(t, sv.mg, of, CreateRequest{})
	score(t, sv.mg, of, "text")
	caughtUp(t, sv.mg, id)
	store.fail("SetHead", storage.ErrUnknown, true)
	_, err := sv.mg.Patch(background, Caller{}, id, PatchRequest{Detach: true})
	require.ErrorIs(t, err, ErrUnknown)
	soon(t, "the session is claimed again",
		func() bool { return get(t, sv.mg, id).ShadowOf == nil })
	score(t, sv.mg, id, " of its own")
	score(t, sv.mg, of, " that continues for longer")
	require.Empty(t, get(t, sv.mg, of).Shadows)
	require.Equal(t, "text of its own", logged(t, sv.mg, id))
}
