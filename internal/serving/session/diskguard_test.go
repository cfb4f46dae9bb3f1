package session

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func feedAs(mg *Manager, who Caller, id, text string) (Summary, error) {
	return mg.Score(background, who, id, strings.NewReader(text), ScoreOptions{}, noChunks)
}

// requireNothingGrows checks that every request that needs disk space is refused.
func requireNothingGrows(t *testing.T, mg *Manager, who Caller, id string, file []byte, want any) {
	t.Helper()
	before := mg.engine.disk.Used(who.Key)
	_, err := mg.Create(background, who, CreateRequest{})
	require.ErrorAs(t, err, want)
	_, err = mg.Fork(background, who, id, ForkRequest{})
	require.ErrorAs(t, err, want)
	_, err = mg.Import(background, who, unread{t}, "")
	require.ErrorAs(t, err, want)
	_, err = mg.Import(background, who, bytes.NewReader(file), "")
	require.ErrorAs(t, err, want)
	_, err = feedAs(mg, who, id, "x")
	require.ErrorAs(t, err, want)
	for _, commit := range []string{CommitPrompt, CommitAll} {
		_, err = mg.Complete(background, who, id,
			CompleteRequest{Prompt: []byte("x"), MaxTokens: 4, Commit: commit}, noPieces)
		require.ErrorAs(t, err, want)
	}
	require.Equal(t, before, mg.engine.disk.Used(who.Key))
}

// requireTheRestGoesOn checks that requests that need no disk space still work.
func requireTheRestGoesOn(t *testing.T, mg *Manager, who Caller, id string) {
	t.Helper()
	_, err := mg.Complete(background, who, id,
		CompleteRequest{Prompt: []byte("x"), MaxTokens: 4}, noPieces)
	require.NoError(t, err)
	require.NoError(t, mg.Export(background, who, id, 0, io.Discard, nil))
	_, err = mg.Get(who, id)
	require.NoError(t, err)
	_, _, err = mg.List(who, "", 0)
	require.NoError(t, err)
}

func TestKeyAtItsDiskLimitDoesNotStopAnother(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	const limit = 20_000
	a, b := Caller{Key: "a", MaxDisk: limit}, Caller{Key: "b", MaxDisk: 10 * limit}
	made, err := sv.mg.Create(background, a, CreateRequest{})
	require.NoError(t, err)
	id := made.ID
	require.Positive(t, made.DiskBytes)
	others, err := sv.mg.Create(background, b, CreateRequest{})
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, sv.mg.Export(background, b, others.ID, 0, &file, nil))

	// An upload fails at the first chunk that does not fit. The chunks reported before are kept.
	var full *DiskLimitError
	reported := int64(0)
	sum, err := sv.mg.Score(background, a, id, strings.NewReader(logText(limit)), ScoreOptions{},
		func(c Chunk) error {
			reported += c.Bytes
			return nil
		})
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, limit, full.Limit)
	require.LessOrEqual(t, full.Used, int64(limit))
	require.Greater(t, full.Used, int64(limit*9/10))
	require.Equal(t, reported, sum.Bytes)
	info, err := sv.mg.Get(a, id)
	require.NoError(t, err)
	require.Equal(t, reported, info.Offset)
	require.Equal(t, full.Used, info.DiskBytes)
	require.Equal(t, logText(limit)[:reported], logged(t, sv.mg, id))

	for err = nil; err == nil; { // a piece shorter than a chunk may still fit
		_, err = feedAs(sv.mg, a, id, "x")
	}
	requireNothingGrows(t, sv.mg, a, id, file.Bytes(), &full)
	requireTheRestGoesOn(t, sv.mg, a, id)
	_, err = feedAs(sv.mg, b, others.ID, logText(1000))
	require.NoError(t, err)
	admin := Caller{Key: "c", Admin: true}
	_, err = feedAs(sv.mg, admin, id, logText(1000))
	require.ErrorAs(t, err, &full, "the limit is that of the session's key, whoever feeds it")

	sv.restart()
	info, err = sv.mg.Get(a, id)
	require.NoError(t, err)
	_, err = feedAs(sv.mg, a, id, "xyz")
	require.ErrorAs(t, err, &full)
	require.Equal(t, full.Used, info.DiskBytes)
	require.LessOrEqual(t, full.Used, int64(limit))

	// A higher limit in the keys file, or a deletion, gives more space at once.
	higher := a
	higher.MaxDisk *= 2
	_, err = feedAs(sv.mg, higher, id, "xyz")
	require.NoError(t, err)
	require.NoError(t, sv.mg.Delete(a, id))
	require.Zero(t, sv.mg.engine.disk.Used("a"))
	_, err = sv.mg.Create(background, a, CreateRequest{})
	require.NoError(t, err)
	require.Empty(t, sv.told())
}

func TestImportBeyondLimitIsRefusedBeforeItIsWritten(t *testing.T) {
	from := newManager(t, Options{})
	text := strings.Repeat("a", 100_000)
	small := Settings{"method": MethodStatic, "chunk": 1000, "companion": false}
	id := create(t, from, CreateRequest{Settings: small})
	score(t, from, id, text)
	file := export(t, from, id)

	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	who := Caller{Key: "a", MaxDisk: 50_000}
	var full *DiskLimitError
	_, err := sv.mg.Import(background, who, bytes.NewReader(file), "")
	require.ErrorAs(t, err, &full)
	require.Zero(t, sv.store.Usage().Sessions)
	found, err := sv.store.List(background, "", 10)
	require.NoError(t, err)
	require.Empty(t, found)
	require.Zero(t, sv.mg.engine.disk.Used("a"))

	// The limit allows only one of these imports. So one of four concurrent imports succeeds.
	who.MaxDisk = 200_000
	var wait sync.WaitGroup
	var mu sync.Mutex
	fitted := 0
	for range 4 {
		wait.Go(func() {
			if _, err := sv.mg.Import(background, who, bytes.NewReader(file), ""); err == nil {
				mu.Lock()
				defer mu.Unlock()
				fitted++
			}
		})
	}
	wait.Wait()
	require.Equal(t, 1, fitted)
	require.LessOrEqual(t, sv.mg.engine.disk.Used("a"), who.MaxDisk)
}

func TestDiskLimitHoldsForForks(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	who := Caller{Key: "a", MaxDisk: 250_000}
	made, err := sv.mg.Create(background, who,
		CreateRequest{Settings: Settings{"method": MethodStatic}})
	require.NoError(t, err)
	_, err = feedAs(sv.mg, who, made.ID, logText(5000))
	require.NoError(t, err)
	var full *DiskLimitError
	forks := int64(0)
	for ; full == nil; forks++ {
		require.Less(t, forks, int64(1000))
		if _, err := sv.mg.Fork(background, who, made.ID, ForkRequest{}); err != nil {
			require.ErrorAs(t, err, &full)
		}
		require.LessOrEqual(t, sv.mg.engine.disk.Used("a"), who.MaxDisk)
	}
	require.Greater(t, forks*sv.mg.engine.disk.Charged(made.ID), 2*who.MaxDisk,
		"no room is asked for what a fork shares")
	_, err = sv.mg.Create(background, Caller{Key: "b", MaxDisk: 20_000}, CreateRequest{})
	require.NoError(t, err)
}

// A snapshot may exceed the key's disk limit. After that, the key's sessions get no more snapshots.
func TestKeyAtItsLimitGetsNoMoreSnapshots(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	defer func() { sv.stop() }()
	who := Caller{Key: "a", MaxDisk: 160_000}
	var ids []string
	for range 8 {
		made, err := sv.mg.Create(background, who, CreateRequest{})
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	for range 3 {
		for _, id := range ids {
			_, _ = feedAs(sv.mg, who, id, logText(4*testChunk))
		}
	}
	var largest int64
	for _, id := range ids {
		kept, err := sv.store.Snapshots(background, id)
		require.NoError(t, err)
		for _, k := range kept {
			largest = max(largest, k.Bytes)
		}
	}
	require.Positive(t, largest)
	used := sv.mg.engine.disk.Used("a")
	require.GreaterOrEqual(t, used, who.MaxDisk)
	require.LessOrEqual(t, used, who.MaxDisk+largest+2*4096)
	require.Empty(t, sv.told(), "that a snapshot is left out is no failure")
}

type tightStore struct {
	*folder.Folder
	mu   sync.Mutex
	left int64
}

func (s *tightStore) set(left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

func (s *tightStore) Usage() storage.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.Folder.Usage()
	u.Left, u.All = s.left, 1<<40
	return u
}

// While the free disk space is below the reserve, requests that need space are refused. Deletions
// still work.
func TestNearlyFullDiskTakesOnlyDeletions(t *testing.T) {
	var told []error
	tight := &tightStore{left: 1 << 39}
	sv := &server{t: t, dir: t.TempDir(), options: Options{
		ReplayMax: 1, DiskAlarm: func(why error) { told = append(told, why) },
	}, wrap: func(s storage.Store) storage.Store {
		tight.Folder = s.(*folder.Folder)
		return tight
	}}
	sv.start()
	defer func() { sv.stop() }()
	who := Caller{}
	id, other := create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, logText(100))
	file := export(t, sv.mg, id)

	pieces := reads{logText(testChunk), logText(testChunk)}
	_, err := sv.mg.Score(background, who, other, &pieces, ScoreOptions{}, func(Chunk) error {
		tight.set(1 << 20)
		return nil
	})
	var alarm *DiskAlarmError
	require.ErrorAs(t, err, &alarm)
	require.EqualValues(t, testChunk, get(t, sv.mg, other).Offset)
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], "1048576 of the 1099511627776 bytes of the file system")

	requireNothingGrows(t, sv.mg, who, id, file, &alarm)
	requireTheRestGoesOn(t, sv.mg, who, id)
	require.ErrorAs(t, sv.mg.DiskAlarm(), &alarm)
	require.NoError(t, sv.mg.Delete(who, other))
	require.Len(t, told, 1, "the alarm is told once")

	tight.set(1 << 39)
	score(t, sv.mg, id, "on it goes")
	require.NoError(t, sv.mg.DiskAlarm())
	require.Len(t, told, 2)
	require.NoError(t, told[1])
	require.Empty(t, sv.told())
}

func TestDiskBudgetHolds(t *testing.T) {
	const budget = 1 << 18
	sv := newServer(t, t.TempDir(), Options{DiskBudget: budget, ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	var ids []string
	var alarm *DiskAlarmError
	like := CreateRequest{Settings: Settings{"method": MethodStatic, "chunk": 1000}}
	for alarm == nil {
		info, err := sv.mg.Create(background, Caller{}, like)
		if err == nil {
			ids = append(ids, info.ID)
			_, err = feedAs(sv.mg, Caller{}, info.ID, logText(4000))
		}
		if err != nil {
			require.ErrorAs(t, err, &alarm)
		}
	}
	u := sv.store.Usage()
	require.LessOrEqual(t, u.Sessions, int64(budget))
	require.Greater(t, u.Sessions, int64(budget*9/10))
	require.Error(t, sv.mg.DiskAlarm())
	for n := 0; sv.mg.DiskAlarm() != nil; n++ {
		require.NoError(t, sv.mg.Delete(Caller{}, ids[n]))
	}
	_, err := feedAs(sv.mg, Caller{}, ids[len(ids)-1], logText(100))
	require.NoError(t, err)
}
