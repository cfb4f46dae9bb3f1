package session

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func put(t fatal, mg *Manager, who Caller, name string, r CreateRequest) (id string, made bool) {
	t.Helper()
	info, made, err := mg.Put(background, who, name, r)
	require.NoError(t, err)
	require.Equal(t, name, info.Name)
	return info.ID, made
}

func TestWhatANameMayBe(t *testing.T) {
	id := create(t, newManager(t, Options{}), CreateRequest{})
	for _, name := range []string{"a", "web.log", "0", "a-b_c.d", strings.Repeat("x", NameCharsMax),
		id[1:]} {
		require.NoError(t, CheckName(name), name)
	}
	for _, name := range []string{
		"", ".", "..", "-a", "_a", "A", "a/b", `a\b`, "é", "a b", "a\n", "import", id, "a\x00",
		strings.Repeat("x", NameCharsMax+1), "00000000-0000-0000-0000-000000000000",
	} {
		var wrong *FieldError
		require.ErrorAs(t, CheckName(name), &wrong, name)
		require.Equal(t, "name", wrong.Field)
	}
}

func TestNameIsMadeOnceAndFoundEverywhere(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id, made := put(t, sv.mg, Caller{}, "web", CreateRequest{})
	require.True(t, made)
	again, made := put(t, sv.mg, Caller{}, "web", CreateRequest{})
	require.False(t, made)
	require.Equal(t, id, again)
	_, sum := score(t, sv.mg, "web", "some text")
	require.EqualValues(t, 9, sum.Offset)
	complete(t, sv.mg, "web", CompleteRequest{MaxTokens: 1})
	require.Equal(t, id, get(t, sv.mg, "web").ID)
	require.NotEmpty(t, export(t, sv.mg, "web"))

	sv.restart()
	require.Equal(t, id, get(t, sv.mg, "web").ID, "a restart keeps the name")
	require.Equal(t, "web", get(t, sv.mg, id).Name)

	require.NoError(t, sv.mg.Delete(Caller{}, "web"))
	_, err := sv.mg.Get(Caller{}, "web")
	require.ErrorIs(t, err, ErrNotFound)
	other, made := put(t, sv.mg, Caller{}, "web", CreateRequest{})
	require.True(t, made, "a deletion frees the name")
	require.NotEqual(t, id, other)
}

func TestNameBelongsToItsOwner(t *testing.T) {
	mg := newManager(t, Options{})
	a, b, admin := Caller{Key: "a"}, Caller{Key: "b"}, Caller{Key: "c", Admin: true}
	ofA, _ := put(t, mg, a, "web", CreateRequest{})
	for _, who := range []Caller{b, admin} {
		_, err := mg.Get(who, "web")
		require.ErrorIs(t, err, ErrNotFound)
	}
	ofB, made := put(t, mg, b, "web", CreateRequest{})
	require.True(t, made)
	require.NotEqual(t, ofA, ofB)
	found, err := mg.Get(a, "web")
	require.NoError(t, err)
	require.Equal(t, ofA, found.ID)
	require.NoError(t, mg.Delete(admin, ofA), "an admin has its id")
	require.ErrorIs(t, mg.Delete(a, "web"), ErrNotFound)
}

func TestConcurrentPutsCreateOneSession(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer sv.stop()
	const callers, names = 16, 4
	var mu sync.Mutex
	var wait sync.WaitGroup
	ids, makers := map[string]string{}, map[string]int{}
	for i := range callers * names {
		wait.Go(func() {
			name := fmt.Sprint("n", i%names)
			info, made, err := sv.mg.Put(background, Caller{}, name, CreateRequest{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || ids[name] != "" && ids[name] != info.ID {
				t.Errorf("%s: %s after %s, %v", name, info.ID, ids[name], err)
			}
			if ids[name] = info.ID; made {
				makers[name]++
			}
		})
	}
	wait.Wait()
	require.Equal(t, map[string]int{"n0": 1, "n1": 1, "n2": 1, "n3": 1}, makers)
	page, _, err := sv.mg.List(Caller{}, "", 0)
	require.NoError(t, err)
	require.Len(t, page, names)
}

func TestFailedPutFreesName(t *testing.T) {
	mg := newManager(t, Options{MaxSessions: 1})
	create(t, mg, CreateRequest{})
	_, _, err := mg.Put(background, Caller{}, "web", CreateRequest{})
	require.ErrorIs(t, err, ErrFull)
	page, _, _ := mg.List(Caller{}, "", 0)
	require.NoError(t, mg.Delete(Caller{}, page[0].ID))
	_, made := put(t, mg, Caller{}, "web", CreateRequest{})
	require.True(t, made)
	for name, r := range map[string]CreateRequest{
		"Web": {}, "bad": {Settings: Settings{"chunk": -1}}, "worse": {TTL: -1},
	} {
		_, _, err := mg.Put(background, Caller{}, name, r)
		require.ErrorAs(t, err, new(*FieldError), name)
	}
}

func TestPutOfAnotherSessionSaysWhatDiffers(t *testing.T) {
	mg := newManager(t, Options{})
	r := CreateRequest{
		Settings: Settings{"chunk": 7, "beta1": float32(.1)}, Seed: ptr(uint64(3)), TTL: time.Hour,
	}
	id, _ := put(t, mg, Caller{}, "web", r)
	for _, same := range []CreateRequest{
		{}, r, {Settings: Settings{"beta1": float32(.1)}}, {Seed: r.Seed, History: HistoryFull},
		{Labels: map[string]string{"a": "b"}, TTL: time.Minute},
	} {
		found, made := put(t, mg, Caller{}, "web", same)
		require.False(t, made)
		require.Equal(t, id, found)
	}
	require.Equal(t, time.Hour, get(t, mg, id).TTL, "finding changes nothing")
	_, _, err := mg.Put(background, Caller{}, "web", CreateRequest{
		Settings: Settings{"method": MethodStatic, "chunk": 8, "beta1": float32(.1), "p": .25},
		Seed:     ptr(uint64(4)), History: HistoryTail,
	})
	var differ *DifferError
	require.ErrorAs(t, err, &differ)
	require.Equal(t, DifferError{ID: id, Fields: []FieldError{
		{"settings.chunk", "7", "8"},
		{"settings.method", "sparse-meta", "static"},
		{"settings.p", "0.5", "0.25"},
		{"seed", "3", "4"},
		{"history", "full", "tail"},
	}}, *differ)
}

func TestNameIsFreeAgainWhenItsSessionExpires(t *testing.T) {
	mg := newManager(t, Options{})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	first, _ := put(t, mg, Caller{}, "web", CreateRequest{TTL: time.Minute})
	now = now.Add(time.Minute)
	_, err := mg.Get(Caller{}, "web")
	require.ErrorIs(t, err, ErrNotFound)
	second, made := put(t, mg, Caller{}, "web", CreateRequest{})
	require.True(t, made)
	require.NotEqual(t, first, second)
}

func TestSessionGetsNameOfExpiredSession(t *testing.T) {
	mg := newManager(t, Options{})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	put(t, mg, Caller{}, "web", CreateRequest{TTL: time.Minute})
	id, _ := put(t, mg, Caller{}, "log", CreateRequest{})
	now = now.Add(time.Minute)
	name := "web"
	_, err := mg.Patch(background, Caller{}, id, PatchRequest{Name: &name})
	require.NoError(t, err)
	require.Equal(t, id, get(t, mg, "web").ID)
}

func TestForksAndImportsHaveTheNamesThatTheyAreGiven(t *testing.T) {
	mg := newManager(t, Options{})
	put(t, mg, Caller{}, "web", CreateRequest{})
	score(t, mg, "web", logText(3*testChunk))
	file := export(t, mg, "web")
	fork := func(name string) (Info, error) {
		return mg.Fork(background, Caller{}, "web", ForkRequest{Name: name})
	}
	load := func(name string) (Info, error) {
		return mg.Import(background, Caller{}, bytes.NewReader(file), name)
	}
	for kind, from := range map[string]func(string) (Info, error){"fork": fork, "loaded": load} {
		plain, err := from("")
		require.NoError(t, err)
		require.Empty(t, plain.Name)
		named, err := from(kind)
		require.NoError(t, err)
		require.Equal(t, named.ID, get(t, mg, kind).ID)
		_, err = from("web")
		require.ErrorAs(t, err, new(*NameTakenError))
		_, err = from("no name")
		require.ErrorAs(t, err, new(*FieldError))
	}
}

func rename(sv *server, who Caller, id, name string) error {
	_, err := sv.mg.Patch(background, who, id, PatchRequest{Name: &name})
	return err
}

func TestSessionIsFoundByItsLastName(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id, _ := put(t, sv.mg, Caller{}, "web", CreateRequest{Seed: ptr(uint64(3))})
	follower := shadow(t, sv.mg, "web", CreateRequest{})
	score(t, sv.mg, "web", "some text")
	require.NoError(t, rename(sv, Caller{}, "web", "log"))
	for range 2 {
		require.Equal(t, id, get(t, sv.mg, "log").ID)
		require.Equal(t, "log", get(t, sv.mg, id).Name)
		require.Equal(t, "log", get(t, sv.mg, follower).ShadowOf.Name)
		_, err := sv.mg.Get(Caller{}, "web")
		require.ErrorIs(t, err, ErrNotFound)
		sv.restart()
	}
	other, made := put(t, sv.mg, Caller{}, "web", CreateRequest{})
	require.True(t, made, "the name before is free")
	require.ErrorAs(t, rename(sv, Caller{}, "web", "log"), new(*NameTakenError))
	require.ErrorAs(t, rename(sv, Caller{}, "web", "Log"), new(*FieldError))
	require.NoError(t, rename(sv, Caller{}, "web", "web"))
	require.NoError(t, rename(sv, Caller{}, "log", ""))
	require.NoError(t, rename(sv, Caller{}, "web", "log"))
	require.Equal(t, other, get(t, sv.mg, "log").ID)
	_, sum := score(t, sv.mg, id, " goes on")
	require.EqualValues(t, 17, sum.Offset)
	require.NoError(t, sv.mg.Delete(Caller{}, "log"))
	require.NoError(t, rename(sv, Caller{}, id, "log"), "a deletion frees the name")
	require.Empty(t, sv.told())
}

func TestAdminNamesSessionForItsOwner(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	a, admin := Caller{Key: "a"}, Caller{Key: "c", Admin: true}
	id, _ := put(t, sv.mg, a, "web", CreateRequest{})
	put(t, sv.mg, admin, "log", CreateRequest{})
	require.NoError(t, rename(sv, admin, id, "log"))
	found, err := sv.mg.Get(a, "log")
	require.NoError(t, err)
	require.Equal(t, id, found.ID)
	require.ErrorIs(t, rename(sv, Caller{Key: "b"}, id, "mine"), ErrNotFound)
}

func TestConcurrentRenamesGiveNameOnce(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	var wait sync.WaitGroup
	var named atomic.Int32
	for range 16 {
		id := create(t, sv.mg, CreateRequest{})
		wait.Go(func() {
			switch err := rename(sv, Caller{}, id, "web"); {
			case err == nil:
				named.Add(1)
			case !errors.As(err, new(*NameTakenError)):
				t.Error(err)
			}
		})
	}
	wait.Go(func() {
		if _, made, err := sv.mg.Put(background, Caller{}, "web", CreateRequest{}); err != nil {
			t.Error(err)
		} else if made {
			named.Add(1)
		}
	})
	wait.Wait()
	require.EqualValues(t, 1, named.Load())
	id := get(t, sv.mg, "web").ID
	sv.restart()
	require.Equal(t, id, get(t, sv.mg, "web").ID)
}

// If writing a new name fails, the session keeps its old name. If the outcome of the write is
// unknown, the server reads the name from the store again.
func TestUnwrittenNameIsNotTheSessions(t *testing.T) {
	sv, store := faulty(t, Options{})
	id, _ := put(t, sv.mg, Caller{}, "web", CreateRequest{})
	store.fail("SetHead", storage.ErrUnavailable, false)
	require.Error(t, rename(sv, Caller{}, id, "log"))
	require.Equal(t, id, get(t, sv.mg, "web").ID)
	for _, made := range []bool{false, true} {
		store.fail("SetHead", storage.ErrUnknown, made)
		require.ErrorIs(t, rename(sv, Caller{}, id, "log"), ErrUnknown)
		name := map[bool]string{false: "web", true: "log"}[made]
		require.Equal(t, name, get(t, sv.mg, id).Name)
		require.Equal(t, id, get(t, sv.mg, name).ID)
	}
	_, err := sv.mg.Get(Caller{}, "web")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestHeadWithoutNameKeepsItsBytes(t *testing.T) {
	h := testHead(t)
	require.NotContains(t, string(h.encode()), `"name":""`)
	h.Name = "web.log"
	got, err := decodeHead(h.ID, h.encode())
	require.NoError(t, err)
	require.Equal(t, h, got)
	for _, wrong := range []string{`"name":""`, `"name":"A"`, `"name":"` + newID + `"`} {
		text := bytes.Replace(h.encode(), []byte(`"name":"web.log"`), []byte(wrong), 1)
		_, err := decodeHead(h.ID, text)
		require.ErrorContains(t, err, "name", wrong)
	}
}

const newID = "0199f5a4-0000-7000-8000-000000000000"
