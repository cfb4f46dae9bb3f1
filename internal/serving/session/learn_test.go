package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// unflagged contains options that skip flagged lines in learning. With this threshold, about a
// third of the lines of function whole are flagged.
var unflagged = ScoreOptions{Lines: true, Learn: LearnUnflagged, Threshold: .3}

// strangeText returns a text in which some lines consist of new words. With the options in variable
// unflagged, these lines are flagged as strange.
func strangeText() string {
	var b strings.Builder
	for i := range lines.WarmUp + 20 {
		method := "GET"
		if i%5 == 4 {
			method = fmt.Sprintf("FAIL%c %c", 'a'+i%26, 'A'+i/2)
		}
		fmt.Fprintf(&b, "%d %s /%d\n", i%10, method, i*i%7)
	}
	return b.String()
}

func feedLines(mg *Manager, id, text string, o ScoreOptions) (Summary, error) {
	return mg.Score(background, Caller{}, id, strings.NewReader(text), o, noChunks)
}

func linesBegun(t testing.TB, mg *Manager, id string) (from *int64, byLine bool) {
	s, err := mg.index.catalog.find(Caller{}, id)
	require.NoError(t, err)
	require.NoError(t, s.lock(background))
	defer s.unlock()
	return s.LinesFrom, s.ByLine
}

// undisturbed feeds a text with the options in variable unflagged, without interruption. It returns
// the hash of the session's state.
func undisturbed(t testing.TB, r CreateRequest, text string) string {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, r)
	_, err := feedLines(mg, id, text, unflagged)
	require.NoError(t, err)
	return hash(t, mg, id)
}

// A score request with lines waits until the session's state is in memory. It fails if the queue is
// full or the recovery takes too long.
func TestRequestForLinesWaitsLikeOneForText(t *testing.T) {
	sv, id := coldServer(t, logText(9*testChunk), Options{ReplayMax: time.Hour, MaxQueue: 2})
	defer func() { sv.stop() }()
	refused := func() {
		t.Helper()
		_, err := feedLines(sv.mg, id, "a\n", unflagged)
		require.ErrorIs(t, err, ErrOverloaded)
		from, byLine := linesBegun(t, sv.mg, id)
		require.Nil(t, from)
		require.False(t, byLine)
	}
	queue := &sv.mg.engine.waiting
	require.True(t, queue.enter("", true))
	require.True(t, queue.enter("", true))
	refused()
	queue.leave("")
	queue.leave("")
	sv.mg.engine.scoreRecovery = 1
	refused()
	sv.mg.engine.scoreRecovery = time.Minute
	_, err := feedLines(sv.mg, id, "a\n", unflagged)
	require.NoError(t, err)
	from, byLine := linesBegun(t, sv.mg, id)
	require.EqualValues(t, 9*testChunk, *from)
	require.True(t, byLine)
	require.Zero(t, queue.length())
}

// A session needs extra memory to report lines, but other sessions use this memory. While the
// session waits, it releases its own memory, so that sessions never wait for each other.
func TestLinesWaitForMemory(t *testing.T) {
	small := stream.StateBytes(testModel(t), stream.Defaults(testModel(t)))
	sv := newServer(t, t.TempDir(), Options{
		ReplayMax: time.Hour, MaxMemoryBytes: 2*small + stream.LinesBytes - 1,
	})
	defer func() { sv.stop() }()
	id, other := create(t, sv.mg, CreateRequest{}), create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, "abc")
	done := make(chan error, 1)
	withSession(t, sv.mg, other, func(*session) {
		go func() {
			_, err := feedLines(sv.mg, id, whole(0, 9), ScoreOptions{Lines: true})
			done <- err
		}()
		soon(t, "the session waits", func() bool {
			return get(t, sv.mg, id).MemoryBytes == 0 && sv.mg.engine.budget.Waiting()
		})
	})
	require.NoError(t, <-done)
	from, _ := linesBegun(t, sv.mg, id)
	require.EqualValues(t, 3, *from)
	require.Equal(t, "abc"+whole(0, 9), logged(t, sv.mg, id))
	require.Equal(t, get(t, sv.mg, id).MemoryBytes, small+stream.LinesBytes)

	tight := newManager(t, Options{MaxMemoryBytes: small + 1000})
	id = create(t, tight, CreateRequest{})
	_, err := feedLines(tight, id, "a\n", ScoreOptions{Lines: true})
	require.ErrorIs(t, err, ErrFull)
	score(t, tight, id, "it goes on without lines")
	from, _ = linesBegun(t, tight, id)
	require.Nil(t, from)
}

func TestEmptyTextBeginsNoLines(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	_, err := feedLines(mg, id, "", unflagged)
	require.NoError(t, err)
	from, byLine := linesBegun(t, mg, id)
	require.Nil(t, from)
	require.False(t, byLine)
}

// If a session's head cannot be written, the request for lines fails. The session's text and memory
// use are unchanged.
func TestLinesThatCannotBeginTakeNothing(t *testing.T) {
	for _, made := range []bool{false, true} {
		sv, store := faulty(t, Options{ReplayMax: time.Hour})
		id := create(t, sv.mg, CreateRequest{})
		score(t, sv.mg, id, "abc")
		before := get(t, sv.mg, id).MemoryBytes
		store.fail("SetHead", storage.ErrUnavailable, false)
		_, err := feedLines(sv.mg, id, "a\n", unflagged)
		require.ErrorIs(t, err, ErrUnavailable)
		require.Equal(t, before, get(t, sv.mg, id).MemoryBytes)
		require.Equal(t, "abc", logged(t, sv.mg, id))
		store.fail("SetHead", storage.ErrUnknown, made)
		_, err = feedLines(sv.mg, id, "a\n", unflagged)
		require.ErrorIs(t, err, ErrUnknown)
		require.Zero(t, get(t, sv.mg, id).MemoryBytes)
		_, err = feedLines(sv.mg, id, "a\n", unflagged)
		require.NoError(t, err)
		from, _ := linesBegun(t, sv.mg, id)
		require.EqualValues(t, 3, *from)
		require.Empty(t, sv.told())
	}
}

// A line that is too long is not learned, even if its first part was fed with learn=true. The log
// and the report name the same unlearned lines.
func TestOverlongLineIsAmongUnlearnedOnes(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{Settings: Settings{"chunk": 1024, "method": MethodStatic}})
	_, err := feedLines(sv.mg, id, strings.Repeat("a", 15_000), ScoreOptions{Lines: true})
	require.NoError(t, err)
	o := unflagged
	o.Threshold = 1e-300
	ended, _ := watch(t, sv.mg, id, o, strings.Repeat("a", 2000)+"\nshort\n")
	require.True(t, ended[0].Unlearnt)
	require.False(t, ended[1].Unlearnt)
	var skipped []uint16
	require.NoError(t, sv.store.Read(background, id, 0, func(_ int64, r storage.Record) error {
		skipped = append(skipped, r.Skipped...)
		return nil
	}))
	require.Equal(t, []uint16{0}, skipped)
}

// The process may be killed at any time while a session is fed line by line. If the client then
// continues from the session's offset, the result equals that of an uninterrupted session.
func TestLinesSurviveAKillBeforeAnyWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	text, r := strangeText(), CreateRequest{}
	want := undisturbed(t, r, text)
	// Each round kills the process 19 writes later than the round before. Writes of different kinds
	// alternate, so the odd number 19 covers each kind.
	for killed, done := 0, false; !done; killed += 19 {
		k := &killedStore{left: killed}
		sv := &server{t: t, dir: t.TempDir(), options: Options{ReplayMax: 1}}
		sv.start()
		id := create(t, sv.mg, r)
		sv.stop()
		sv.wrap = func(s storage.Store) storage.Store { k.Store = s; return k }
		sv.start()
		_, err := feedLines(sv.mg, id, text, unflagged)
		done = err == nil
		k.left = 0
		sv.stop()
		sv.wrap, sv.options.ReplayMax = nil, time.Hour
		sv.start()
		sv.told()
		at := get(t, sv.mg, id).Offset
		_, err = feedLines(sv.mg, id, text[at:], unflagged)
		require.NoError(t, err)
		require.Equal(t, want, hash(t, sv.mg, id), "killed before write %d, at offset %d", killed,
			at)
		require.Equal(t, text, logged(t, sv.mg, id))
		requireClean(t, sv, 1)
		require.Empty(t, sv.told())
		sv.stop()
	}
}

// A fork has the state that the original session had at the fork's offset. The offset may be
// anywhere within a line, a chunk or a record. Records may be longer than chunks.
func TestForkOfLinesAtEveryKindOfOffset(t *testing.T) {
	text := strangeText()
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{})
	_, err := feedLines(sv.mg, id, text, unflagged)
	require.NoError(t, err)
	want := hash(t, sv.mg, id)

	x := takeApart(t, sv.mg, id)
	inOneRecord(x)
	long, err := sv.mg.Import(background, Caller{}, x.archive(t), "")
	require.NoError(t, err)

	step := int64(37)
	if testing.Short() {
		step = 101
	}
	for from, id := range []string{id, long.ID} {
		for at := int64(0); at <= int64(len(text)); at += step {
			fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
			require.NoError(t, err)
			_, err = feedLines(sv.mg, fork.ID, text[at:], unflagged)
			require.NoError(t, err)
			require.Equal(t, want, hash(t, sv.mg, fork.ID), "log %d, offset %d", from, at)
			r, err := Replay(background, testModel(t), sv.store, fork.ID, 1, func(int64, int64) {})
			require.NoError(t, err)
			require.Zero(t, r.Wrong)
			require.NoError(t, sv.mg.Delete(Caller{}, fork.ID))
		}
	}
	require.Empty(t, sv.told())
}

// inOneRecord joins all records of an exported log into one record.
func inOneRecord(x *changeable) {
	one := *x.last()
	one.Text, one.Skipped = nil, nil
	for _, r := range x.records {
		first := bytes.Count(one.Text, []byte{'\n'})
		for _, n := range r.Skipped {
			one.Skipped = append(one.Skipped, n+uint16(first))
		}
		one.Text = append(one.Text, r.Text...)
	}
	x.records = []storage.Record{one}
}

// A change of labels must not overwrite the head's fields about lines.
func TestLabelsChangeWhileLinesAreFed(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	id, text := create(t, sv.mg, CreateRequest{}), strangeText()
	want := undisturbed(t, CreateRequest{}, text)
	var patches sync.WaitGroup
	label := func(c Chunk) error {
		patches.Go(func() {
			labels := map[string]*string{"n": ptr(fmt.Sprint(c.Step))}
			_, err := sv.mg.Patch(background, Caller{}, id, PatchRequest{Labels: labels})
			require.NoError(t, err)
		})
		return nil
	}
	_, err := sv.mg.Score(background, Caller{}, id, strings.NewReader(text), unflagged, label)
	require.NoError(t, err)
	patches.Wait()
	sv.restart()
	require.Equal(t, want, hash(t, sv.mg, id))
	require.NotEmpty(t, get(t, sv.mg, id).Labels)
	from, byLine := linesBegun(t, sv.mg, id)
	require.Zero(t, *from)
	require.True(t, byLine)
}

// The parts of one line are fed with different learning options. Restarts between the parts do not
// change the state.
func TestLearningChangesInTheMidstOfALine(t *testing.T) {
	r := CreateRequest{Settings: Settings{"method": MethodDynamicSGD}}
	pieces := []struct {
		text string
		o    ScoreOptions
	}{
		{strangeText(), unflagged}, {strings.Repeat("z", testChunk+3), unflagged},
		{"now all of it, and on", ScoreOptions{}}, {" by lines again\n", unflagged},
		{strings.Repeat("y", 2*testChunk), unflagged}, {" lines\nand", ScoreOptions{Lines: true}},
	}
	hashes := map[string]bool{}
	for _, restarts := range []bool{false, true} {
		sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
		id := create(t, sv.mg, r)
		for _, p := range pieces {
			_, err := feedLines(sv.mg, id, p.text, p.o)
			require.NoError(t, err)
			if restarts {
				sv.restart()
			}
		}
		hashes[hash(t, sv.mg, id)] = true
		requireClean(t, sv, 1)
		sv.stop()
	}
	require.Len(t, hashes, 1)
}

// Score requests without learning run while another request feeds the session. They change nothing
// in the session, and each scores its text from a single state.
func TestReadersBesideAFeeder(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	id, text := create(t, mg, CreateRequest{}), strangeText()
	read := ScoreOptions{Learn: LearnFalse, Lines: true, LogProbs: true}
	ctx, stop := context.WithCancel(background)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				at := int64(-1)
				_, err := mg.Score(background, Caller{}, id, strings.NewReader(whole(7, 4)), read,
					func(c Chunk) error {
						if at >= 0 && at != c.Offset {
							return fmt.Errorf("a chunk at offset %d, expected %d", c.Offset, at)
						}
						at = c.Offset + c.Bytes
						return nil
					})
				require.NoError(t, err)
			}
		})
	}
	for at := 0; at < len(text); at += 50 {
		_, err := feedLines(mg, id, text[at:min(len(text), at+50)], unflagged)
		require.NoError(t, err)
	}
	stop()
	all.Wait()
	require.Equal(t, undisturbed(t, CreateRequest{}, text), hash(t, mg, id))
}

// A request that scores without learning ends between two chunks when it is canceled, for instance
// because its key was revoked. After that, the session can be fed at once. The request also ends
// when the session is deleted.
func TestReaderEndsWithItsRequestAndWithItsSession(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	read := func(stop func(), ctx context.Context) error {
		o := ScoreOptions{Learn: LearnFalse, Lines: true}
		_, err := mg.Score(ctx, Caller{}, id, strings.NewReader(strangeText()), o,
			func(Chunk) error {
				stop()
				return nil
			})
		return err
	}
	ctx, revoke := context.WithCancelCause(background)
	revoked := errors.New("revoked")
	require.ErrorIs(t, read(func() { revoke(revoked) }, ctx), context.Canceled)
	_, err := feedLines(mg, id, "on\n", unflagged)
	require.NoError(t, err)
	remove := func() { require.NoError(t, mg.Delete(Caller{}, id)) }
	require.ErrorIs(t, read(sync.OnceFunc(remove), background), ErrNotFound)
	require.Zero(t, mg.engine.budget.Used())
}

// A session with HistoryTail keeps only the end of its text. This text is enough to continue
// learning line by line, even after a compaction or a restore from a backup.
func TestTailOfLinesSurvivesCompactionAndBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	text := strangeText()
	want := undisturbed(t, CreateRequest{}, text+text)
	sv := newServer(t, t.TempDir(), Options{ReplayMax: 1})
	id := create(t, sv.mg, CreateRequest{History: HistoryTail})
	half := func() {
		t.Helper()
		at := get(t, sv.mg, id).Offset
		_, err := feedLines(sv.mg, id, (text + text)[at:], unflagged)
		require.NoError(t, err)
	}
	_, err := feedLines(sv.mg, id, text+text[:33], unflagged)
	require.NoError(t, err)
	found, err := sv.store.Get(background, id)
	require.NoError(t, err)
	require.Positive(t, found.Start)
	b, err := sv.mg.Backup(background, Caller{}, "")
	require.NoError(t, err)
	var archive bytes.Buffer
	_, err = io.Copy(&archive, b)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	restored := filepath.Join(t.TempDir(), "restored")
	none := func(d *storage.CorruptError) { t.Error(d) }
	require.NoError(t, datafolder.Restore(background, &archive, restored, none))
	sv.stop()
	for _, dir := range []string{sv.dir, restored} {
		sv.dir = dir
		sv.start()
		half()
		require.Equal(t, want, hash(t, sv.mg, id))
		requireClean(t, sv, 1)
		require.Empty(t, sv.told())
		sv.stop()
		require.NoError(t, datafolder.Check(background, dir, none))
	}
}

// The log lists the lines that were not learned. This list counts toward the disk limit of the API
// key or, with a store in memory, toward the memory limit. Trimming the text frees the memory of
// the list.
func TestUnlearnedTextIsCharged(t *testing.T) {
	all := ScoreOptions{Lines: true, Learn: LearnUnflagged, Threshold: 1}
	text := strings.Repeat("\n", 20_000)
	like := CreateRequest{Settings: Settings{"method": MethodStatic, "chunk": 1000}}
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour})
	defer func() { sv.stop() }()
	who := Caller{Key: "a", MaxDisk: 40_000}
	info, err := sv.mg.Create(background, who, like)
	require.NoError(t, err)
	var full *DiskLimitError
	_, err = sv.mg.Score(background, who, info.ID, strings.NewReader(text), all, noChunks)
	require.ErrorAs(t, err, &full)
	require.LessOrEqual(t, full.Used, who.MaxDisk)
	require.Greater(t, full.Used, who.MaxDisk*8/10)

	mg := newManager(t, Options{})
	like.History = HistoryTail
	id := create(t, mg, like)
	_, err = feedLines(mg, id, text, all)
	require.NoError(t, err)
	withSession(t, mg, id, func(s *session) {
		state := s.stateBytes(mg.engine.models[0].Model)
		require.Greater(t, s.memory.Bytes()-state, int64(len(text))*27/10)
		require.NoError(t, s.trimVolatileLocked(background))
		require.Equal(t, int64(1000+2*1000+recordBytes), s.memory.Bytes()-state)
	})
	fork, err := mg.Fork(background, Caller{}, id, ForkRequest{})
	require.NoError(t, err)
	require.Equal(t, get(t, mg, id).MemoryBytes, get(t, mg, fork.ID).MemoryBytes)
}
