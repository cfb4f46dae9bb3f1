package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

var background = context.Background()

// server is a restartable Manager on a data folder.
type server struct {
	t       fatal
	dir     string
	options Options
	model   *model.Model // nil means the model modeltest.Small
	wrap    func(storage.Store) storage.Store
	mg      *Manager
	store   *datafolder.Folder

	mu      sync.Mutex
	reports []error
}

func newServer(t fatal, dir string, o Options) *server {
	sv := &server{t: t, dir: dir, options: o}
	sv.start()
	return sv
}

func (sv *server) start() {
	store, err := datafolder.Open(sv.dir, datafolder.Options{})
	require.NoError(sv.t, err)
	sv.store = store
	o := sv.options
	o.Store = store
	if sv.wrap != nil {
		o.Store = sv.wrap(store)
	}
	o.Report = func(err error) {
		sv.mu.Lock()
		defer sv.mu.Unlock()
		sv.reports = append(sv.reports, err)
	}
	m := sv.model
	if m == nil {
		m, err = modeltest.Small()
		require.NoError(sv.t, err)
	}
	sv.mg, err = NewManager(m, o)
	require.NoError(sv.t, err)
}

// stop leaves the data folder in the state after a kill of the server. It first drops the states in
// memory, because draining the server would write snapshots of them.
func (sv *server) stop() {
	for s, ok := sv.mg.index.budget.Victim(); ok; s, ok = sv.mg.index.budget.Victim() {
		require.NoError(sv.t, s.lock(background))
		s.dropLocked()
		s.unlock()
	}
	require.NoError(sv.t, sv.mg.Drain(background))
	require.NoError(sv.t, sv.store.Close())
}

func (sv *server) restart() {
	sv.stop()
	sv.start()
}

// told returns the errors that the Manager has reported since the last call of told.
func (sv *server) told() []error {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	r := sv.reports
	sv.reports = nil
	return r
}

// keep writes a snapshot of the session.
func (sv *server) keep(id string) {
	withSession(sv.t, sv.mg, id, func(s *session) {
		require.NoError(sv.t, s.writeStateLocked(background, s.stream))
	})
}

func (sv *server) evict(id string) {
	withSession(sv.t, sv.mg, id, func(s *session) { s.dropLocked() })
}

func stateFiles(t require.TestingT, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "state.*"))
	require.NoError(t, err)
	return files
}

// spoilSnapshots truncates all snapshot files and returns their paths. The server must be stopped.
func (sv *server) spoilSnapshots() []string {
	files := stateFiles(sv.t, sv.dir)
	for _, file := range files {
		require.NoError(sv.t, os.Truncate(file, 10))
	}
	return files
}

// tempDir returns a temporary folder for a rapid test, because rapid.T has no TempDir.
func tempDir(t *testing.T, rt *rapid.T) string {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	require.NoError(rt, err)
	return dir
}

// A session's results are bit-identical, wherever in the text the session is stopped, evicted or
// saved.
func TestReloadedSessionHasSameBits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sv := newServer(rt, tempDir(t, rt), Options{ReplayMax: time.Hour})
		defer func() { sv.stop() }()
		r := drawRequest(rt)
		r.History = rapid.SampledFrom([]string{HistoryFull, HistoryTail}).Draw(rt, "history")
		id := create(rt, sv.mg, r)
		text := logText(rapid.IntRange(0, 200).Draw(rt, "bytes"))
		var got []float64
		for _, piece := range cut(rt, text, 60) {
			for _, what := range rapid.SliceOfN(rapid.SampledFrom([]string{"restart", "snapshot",
				"evict", "completion"}), 0, 3).Draw(rt, "what") {
				switch what {
				case "restart":
					was := get(rt, sv.mg, id)
					sv.restart()
					is := get(rt, sv.mg, id)
					was.MemoryBytes = 0
					require.WithinDuration(rt, was.LastUsed, is.LastUsed, time.Minute)
					is.LastUsed = was.LastUsed
					require.Equal(rt, was, is, "though it is cold")
				case "snapshot":
					sv.keep(id)
				case "evict":
					sv.evict(id)
				case "completion":
					complete(rt, sv.mg, id, CompleteRequest{MaxTokens: 3})
				}
			}
			chunks, _ := score(rt, sv.mg, id, piece)
			got = append(got, logProbs(chunks)...)
		}
		sv.restart()
		want, wantLogProbs := alone(rt, sv.mg.engine.models[0].Model, r, text)
		require.Equal(rt, wantLogProbs, got)
		require.Equal(rt, want.Hash(), hash(rt, sv.mg, id))
		require.Empty(rt, sv.told())
		found, err := sv.store.Get(background, id)
		require.NoError(rt, err)
		if r.History == HistoryFull {
			require.Zero(rt, found.Start)
			require.Equal(rt, text, logged(rt, sv.mg, id))
		}
	})
}

func TestManySessionsShareTheMemoryOfThree(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const sessions, clients = 200, 10
	probe := newManager(t, Options{})
	size := get(t, probe, create(t, probe, CreateRequest{})).MemoryBytes
	sv := &server{t: t, dir: t.TempDir(), options: Options{MaxMemoryBytes: 3*size + size/2,
		ReplayMax: time.Hour}}
	var most int64
	var looking sync.Mutex
	sv.wrap = func(s storage.Store) storage.Store {
		return &appending{s, func(string, int64) error {
			looking.Lock()
			defer looking.Unlock()
			most = max(most, sv.mg.index.budget.Used())
			return nil
		}}
	}
	sv.start()
	defer func() { sv.stop() }()
	text := logText(3 * testChunk)
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = create(t, sv.mg, CreateRequest{})
	}
	require.Zero(t, sv.mg.index.budget.Used(), "before its first text a session takes none")
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			// Each piece ends within a chunk. Between two pieces of a session, all other sessions
			// are fed.
			for from := 0; from < len(text); from += 24 {
				for i := c; i < sessions; i += clients {
					_, err := sv.mg.Score(background, Caller{}, ids[i],
						strings.NewReader(text[from:from+24]),
						ScoreOptions{Offset: ptr(int64(from))}, noChunks)
					require.NoError(t, err)
				}
			}
		})
	}
	wait.Wait()
	require.Equal(t, 3*size, most, "the budget was used, and not more")
	want, _ := alone(t, sv.mg.engine.models[0].Model, CreateRequest{}, text)
	for _, id := range ids {
		require.Equal(t, want.Hash(), hash(t, sv.mg, id))
	}
	require.LessOrEqual(t, sv.mg.index.budget.Used(), 3*size)
	require.Empty(t, sv.told())
}

func TestRequestWaitsForMemoryOrGivesUp(t *testing.T) {
	probe := newManager(t, Options{})
	size := get(t, probe, create(t, probe, CreateRequest{})).MemoryBytes
	sv := newServer(t, t.TempDir(), Options{MaxMemoryBytes: size})
	defer func() { sv.stop() }()
	a, b := create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{})
	done := make(chan error, 1)
	withSession(t, sv.mg, a, func(*session) { // session a is in use
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		_, err := sv.mg.Score(ctx, Caller{}, b, strings.NewReader("x"), ScoreOptions{}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() {
			_, err := sv.mg.Score(background, Caller{}, b, strings.NewReader("x"), ScoreOptions{},
				noChunks)
			done <- err
		}()
		soon(t, "it waits", sv.mg.index.budget.Waiting)
	})
	require.NoError(t, <-done)
	require.Zero(t, get(t, sv.mg, a).MemoryBytes, "it made room")
	require.Equal(t, size, get(t, sv.mg, b).MemoryBytes)
	_, err := sv.mg.Create(background, Caller{}, CreateRequest{
		Settings: Settings{"companion_bytes": 1 << 26},
	})
	require.ErrorIs(t, err, ErrFull, "it would never fit")
}

func TestDamagedSnapshotIsReportedAndSkipped(t *testing.T) {
	for name, damaged := range map[string]int{"the newest": 1, "both": 2} {
		t.Run(name, func(t *testing.T) {
			sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
			defer func() { sv.stop() }()
			id, text := create(t, sv.mg, CreateRequest{}), logText(5*testChunk)
			for at := 0; at < len(text); at += testChunk {
				score(t, sv.mg, id, text[at:at+testChunk])
				if at < 3*testChunk {
					sv.keep(id)
				}
			}
			sv.stop()
			files := stateFiles(t, sv.dir)
			require.Len(t, files, 2)
			for _, file := range files[2-damaged:] {
				b, err := os.ReadFile(file)
				require.NoError(t, err)
				b[len(b)/2] ^= 4
				require.NoError(t, os.WriteFile(file, b, 0o600))
			}
			sv.start()
			requireFed(t, sv.mg, id, text)
			told := sv.told()
			require.Len(t, told, damaged)
			for n, err := range told {
				var where *storage.CorruptError
				require.ErrorAs(t, err, &where)
				require.Equal(t, "sessions/"+id+"/"+filepath.Base(files[1-n]), where.File)
				require.Equal(t, int64((3-n)*testChunk), where.Offset)
			}
			kept, err := sv.store.Snapshots(background, id)
			require.NoError(t, err)
			require.Len(t, kept, 2-damaged, "it pushes no good one out")
			sv.restart()
			requireFed(t, sv.mg, id, text)
			require.Empty(t, sv.told())
		})
	}
}

func TestTailIsNotEnoughWithoutSnapshot(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{History: HistoryTail})
	score(t, sv.mg, id, logText(4*testChunk+3))
	found, err := sv.store.Get(background, id)
	require.NoError(t, err)
	require.Equal(t, int64(4*testChunk), found.Start, "every chunk was snapshotted")
	kept, err := sv.store.Snapshots(background, id)
	require.NoError(t, err)
	require.Len(t, kept, 2)
	sv.stop()
	sv.spoilSnapshots()
	sv.start()
	for range 2 { // a failed attempt leaves the damaged files in place
		_, err = sv.mg.Score(background, Caller{}, id, strings.NewReader("more"), ScoreOptions{},
			nil)
		require.ErrorContains(t, err, "no snapshot is readable")
		require.Len(t, sv.told(), 2)
	}
	require.Equal(t, int64(4*testChunk+3), get(t, sv.mg, id).Offset)
	require.Zero(t, sv.mg.index.budget.Used())
}

func TestAnotherArithmeticIsNotedAndSnapshotted(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id, text := create(t, sv.mg, CreateRequest{}), logText(3*testChunk+5)
	score(t, sv.mg, id, text)
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	h, err := decodeHead(id, found.Head)
	require.NoError(t, err)
	h.Numerics[0].Name = "abacus"
	require.NoError(t, sv.store.SetHead(background, id, found.Epoch, h.encode()))
	// The log also gets a record with totals that no server would compute.
	require.NoError(t, sv.store.Append(background, id, found.Epoch, found.End,
		storage.Record{Bits: 1000, Text: []byte("!")}))
	sv.restart()
	require.Equal(t, "abacus", get(t, sv.mg, id).Numerics)
	require.Equal(t, 1000., get(t, sv.mg, id).Bits)
	score(t, sv.mg, id, "on")
	told := sv.told()
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], fmt.Sprintf("abacus up to offset %d", len(text)+1))
	info := get(t, sv.mg, id)
	require.Equal(t, kernel.Arithmetic{}.Numerics(), info.Numerics)
	require.Greater(t, info.Bits, 1000., "it goes on from what was told")
	kept, err := sv.store.Snapshots(background, id)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Equal(t, int64(len(text)+1), kept[0].Offset)
	was := hash(t, sv.mg, id)
	sv.restart()
	require.Equal(t, was, hash(t, sv.mg, id))
	require.Equal(t, info.Bits, get(t, sv.mg, id).Bits)
	require.Empty(t, sv.told(), "once")
}

func TestDrainTakesWorthwhileSnapshots(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	ids := []string{create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{})}
	for n, cost := range []time.Duration{replayWorth - 1, replayWorth} {
		score(t, sv.mg, ids[n], logText(2*testChunk+1))
		withSession(t, sv.mg, ids[n], func(s *session) { s.replayCost = cost })
	}
	require.NoError(t, sv.mg.Drain(background))
	for n, id := range ids {
		kept, err := sv.store.Snapshots(background, id)
		require.NoError(t, err)
		require.Len(t, kept, n)
	}
	require.NoError(t, sv.store.Close())
	require.Empty(t, sv.told())
}

func TestRecoveryReportsTotalsThatDiffer(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, logText(20))
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	require.NoError(t, sv.store.Append(background, id, found.Epoch, 20, storage.Record{Bits: 77,
		Text: []byte("?")}))
	_, err = sv.mg.Score(background, Caller{}, id, strings.NewReader("x"), ScoreOptions{}, nil)
	require.ErrorIs(t, err, storage.ErrFenced, "somebody else wrote")
	score(t, sv.mg, id, "x")
	told := sv.told()
	require.Len(t, told, 1)
	var wrong *MismatchError
	require.ErrorAs(t, told[0], &wrong)
	require.Equal(t, []any{int64(21), 77.}, []any{wrong.Offset, wrong.Want})
	require.Equal(t, int64(22), get(t, sv.mg, id).Offset)
}

func TestWhatCannotBeUsedIsListedAndCanBeDeleted(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	other, broken, half := create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{}),
		create(t, sv.mg, CreateRequest{})
	good := create(t, sv.mg, CreateRequest{})
	set := func(id string, change func(h *head), text string) {
		found, err := sv.store.Claim(background, id)
		require.NoError(t, err)
		h, err := decodeHead(id, found.Head)
		require.NoError(t, err)
		change(&h)
		require.NoError(t, sv.store.SetHead(background, id, found.Epoch,
			[]byte(string(h.encode())+text)))
	}
	set(other, func(h *head) { h.Model = modelName{"old", strings.Repeat("ab", 32)} }, "")
	set(broken, func(*head) {}, "!")
	set(half, func(h *head) { h.Complete = false }, "")
	sv.restart()
	require.Len(t, sv.told(), 2)
	page, _, _ := sv.mg.List(Caller{}, "", 0)
	require.Len(t, page, 3)
	require.ErrorContains(t, page[0].Err, "the session's model is old-abababababab")
	require.Equal(t, "old-abababababab", page[0].Model)
	require.ErrorContains(t, page[1].Err, "head: ")
	require.NoError(t, page[2].Err)
	_, err := sv.store.Get(background, half)
	require.ErrorIs(t, err, storage.ErrNotFound, "never completed")
	for _, id := range []string{other, broken} {
		_, err := sv.mg.Score(background, Caller{}, id, unread{t}, ScoreOptions{}, nil)
		require.ErrorAs(t, err, new(*UnusableError))
		_, err = sv.mg.Complete(background, Caller{}, id, CompleteRequest{MaxTokens: 1}, nil)
		require.ErrorAs(t, err, new(*UnusableError))
		require.NoError(t, sv.mg.Delete(Caller{}, id))
	}
	score(t, sv.mg, good, "x")
	sv.restart()
	page, _, _ = sv.mg.List(Caller{}, "", 0)
	require.Len(t, page, 1)
}

func TestSlowDiskDoesNotKeepWorker(t *testing.T) {
	var slow string
	reached, resume := make(chan struct{}), make(chan struct{})
	mg := newManager(t, Options{Threads: 1, Store: &appending{
		storage.NewMemory(), func(id string, at int64) error {
			if id == slow && at == 0 {
				close(reached)
				<-resume
			}
			return nil
		},
	}})
	text, done := logText(3*testChunk), make(chan []Chunk, 1)
	slow = create(t, mg, CreateRequest{})
	other := create(t, mg, CreateRequest{Settings: Settings{"chunk": 7}})
	go func() {
		chunks, _ := score(t, mg, slow, text)
		done <- chunks
	}()
	<-reached
	score(t, mg, other, text) // uses the only worker
	close(resume)
	want, wantLogProbs := alone(t, mg.engine.models[0].Model, CreateRequest{}, text)
	require.Equal(t, wantLogProbs, logProbs(<-done))
	require.Equal(t, want.Hash(), hash(t, mg, slow))
}

func TestExpiredSessionsLeaveTheStore(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	a, b := create(t, sv.mg, CreateRequest{TTL: time.Minute}),
		create(t, sv.mg, CreateRequest{TTL: 50 * time.Millisecond})
	score(t, sv.mg, a, "text")
	now := time.Now().Add(time.Hour)
	sv.mg.engine.clock.read = func() time.Time { return now }
	_, err := sv.mg.Get(Caller{}, a)
	require.ErrorIs(t, err, ErrNotFound)
	sv.mg.engine.clock.read = time.Now
	get(t, sv.mg, a)
	time.Sleep(60 * time.Millisecond)
	sv.restart()
	time.Sleep(60 * time.Millisecond)
	_, _, _ = sv.mg.List(Caller{}, "", 0) // a listing deletes expired sessions
	for _, id := range []string{a, b} {
		_, err := sv.store.Get(background, id)
		require.Equal(t, id == b, errors.Is(err, storage.ErrNotFound))
	}
	sv.mg.engine.clock.read = func() time.Time { return now }
	page, _, _ := sv.mg.List(Caller{}, "", 0)
	require.Empty(t, page)
	_, err = sv.store.Get(background, a)
	require.ErrorIs(t, err, storage.ErrNotFound)
}

func TestSessionWithoutItsModelDoesNotExpire(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{TTL: time.Minute})
	score(t, sv.mg, id, "text")
	own := sv.model
	sv.model = staticModel(t)
	sv.restart()
	sv.mg.engine.clock.read = func() time.Time { return time.Now().Add(time.Hour) }
	page, _, _ := sv.mg.List(Caller{}, "", 0)
	require.Len(t, page, 1)
	require.ErrorAs(t, page[0].Err, new(*ModelError))
	sv.model = own
	sv.restart()
	require.Equal(t, time.Minute, get(t, sv.mg, id).TTL)
	score(t, sv.mg, id, "more")
}

func TestClosedStoreEndsRequestsAsDraining(t *testing.T) {
	store := storage.NewMemory()
	mg := newManager(t, Options{Store: store})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, "text")
	require.NoError(t, store.Close())
	_, err := mg.Score(background, Caller{}, id, strings.NewReader("more"), ScoreOptions{},
		noChunks)
	require.ErrorIs(t, err, ErrDraining)
	require.ErrorIs(t, mg.Delete(Caller{}, id), ErrDraining)
}
