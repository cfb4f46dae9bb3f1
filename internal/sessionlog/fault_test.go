package sessionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/powercut"
)

var background = context.Background()

// script is a run through everything a store does. Each step is one call, and is there as a whole
// or not at all after whatever happens during it.
type script struct {
	epoch map[string]uint64
	at    map[string]int64
}

func newScript() *script { return &script{epoch: map[string]uint64{}, at: map[string]int64{}} }

// byLine makes of a record one that is learnt as usual (how is 0), or by lines: with all of its
// lines learnt (1), or without the last and another (2).
func byLine(r Record, how int) Record {
	if r.ByLine = how > 0; how < 2 || len(r.Text) < 2 {
		return r
	}
	r.Text[0], r.Text[len(r.Text)-1] = '\n', '\n'
	r.Skipped = []uint16{0, 1}
	return r
}

type step struct {
	name string
	do   func(s Store) error
}

func (c *script) steps() []step {
	create := func(id string, start int64) step {
		return step{"create " + id, func(s Store) error {
			epoch, err := s.Create(background, id, []byte(`{"id":"`+id+`"}`), start)
			if err == nil {
				c.epoch[id], c.at[id] = epoch, start
			}
			return err
		}}
	}
	add := func(id string, sizes ...int) step {
		return step{fmt.Sprint("append to ", id, sizes), func(s Store) error {
			var records []Record
			size := int64(0)
			for n, k := range sizes {
				letter := byte('a' + (c.at[id]+int64(n))%26)
				r := Record{
					UnixMS: int64(n), Bits: float64(k) / 3, HasBaseline: n%2 == 1,
					Text: bytes.Repeat([]byte{letter}, k),
				}
				records = append(records, byLine(r, n%3))
				size += int64(k)
			}
			err := s.Append(background, id, c.epoch[id], c.at[id], records...)
			if err == nil {
				c.at[id] += size
			}
			return err
		}}
	}
	keep := func(id string) step {
		return step{"snapshot of " + id, func(s Store) error {
			return s.WriteSnapshot(background, id, c.epoch[id], c.at[id], func(w io.Writer) error {
				for n := range 3 { // some that will not get smaller
					r := rand.New(rand.NewPCG(uint64(c.at[id]), uint64(n)))
					for range 500 {
						if _, err := fmt.Fprint(w, r.Uint64()); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}}
	}
	claim := step{"claim a", func(s Store) error {
		got, err := s.Claim(background, "a")
		if err == nil {
			c.epoch["a"] = got.Epoch
		}
		return err
	}}
	fork := func(from, id string) step {
		return step{"fork " + id, func(s Store) error {
			head := []byte(`{"fork":"` + id + `"}`)
			epoch, err := s.Fork(background, from, id, head, Cut{0, c.at[from]})
			if err == nil {
				c.epoch[id], c.at[id] = epoch, c.at[from]
			}
			return err
		}}
	}
	call := func(name string, do func(s Store) error) step { return step{name, do} }
	drop := func(id string) step { // the oldest
		return step{"drop a snapshot of " + id, func(s Store) error {
			kept, err := s.Snapshots(background, id)
			if err != nil || len(kept) == 0 {
				return err
			}
			return s.DropSnapshot(background, id, c.epoch[id], kept[0].Offset)
		}}
	}
	return []step{
		create("a", 0), add("a", 3), add("a", 100, 128, 128), create("b", 7), add("b", 4000), add("a", 20_000),
		keep("a"), add("a", 128), keep("a"), claim, add("a", 128), keep("a"), drop("a"), drop("a"), add("b", 128), keep("b"),
		call("trim a", func(s Store) error {
			if err := s.Trim(background, "a", c.epoch["a"], c.at["a"]); err != nil {
				return err
			}
			err := swept(s.(*Folder))
			if err != nil && s.Err() == nil { // the session is trimmed nevertheless
				return fmt.Errorf("erasing: %w", err)
			}
			return err
		}),
		call("head of a", func(s Store) error { return s.SetHead(background, "a", c.epoch["a"], []byte("another")) }),
		add("a", 1, 1, 1),
		call("drop snapshot of b", func(s Store) error { return s.DropSnapshot(background, "b", c.epoch["b"], c.at["b"]) }),
		call("delete b", func(s Store) error { return s.Delete(background, "b", c.epoch["b"]) }),
		create("b", 0), add("b", 50, 5000), keep("b"), fork("b", "f"), add("f", 128), fork("f", "g"),
		fork("g", "h"), call("delete f", func(s Store) error { return s.Delete(background, "f", c.epoch["f"]) }),
		add("g", 10), keep("g"),
		call("delete h", func(s Store) error { return s.Delete(background, "h", c.epoch["h"]) }),
		add("a", 90, 80, 70, 60, 50, 40, 30, 20, 10, 9, 8, 7), // more than one commit sweeps
		call("delete a", func(s Store) error { return s.Delete(background, "a", c.epoch["a"]) }),
		add("b", 128),
	}
}

func mustDump(t require.TestingT, s Store) string {
	text, err := dump(s)
	require.NoError(t, err)
	return text
}

// mark is the state of a store at the end of a step, and how much had happened by then.
type mark struct {
	step   string
	events int
	state  string
}

// recorded runs the script on a disk.
func recorded(t *testing.T) (*disk, []mark) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	s, err := open(d.root, Options{}, d.environment())
	require.NoError(t, err)
	marks := []mark{{step: "open", events: len(d.events)}}
	for _, x := range newScript().steps() {
		require.NoError(t, x.do(s), x.name)
		d.settle()
		marks = append(marks, mark{x.name, len(d.events), mustDump(t, s)})
	}
	require.NoError(t, s.Close())
	return d, marks
}

// recovered opens what is left after a power cut, and compares it with what may be there.
func recovered(
	t require.TestingT, i *powercut.Image, dir, what string, s powercut.Survivor, may ...mark,
) {
	require.NoError(t, i.Restore(dir, s))
	defer os.RemoveAll(dir)
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err == nil {
		require.NoError(t, Check(background, dir, func(d *CorruptError) {
			require.True(t, d.Stray, "%s: %v", what, d)
		}))
	}
	f, err := open(dir, Options{}, newDisk(dir).environment()) // which does not sync
	require.NoError(t, err, what)
	var states []string
	for _, m := range may {
		states = append(states, m.state)
	}
	require.Contains(t, states, mustDump(t, f), "%s, in or after %s", what, may[0].step)
	// It can be written again.
	epoch, err := f.Create(background, "new", nil, 0)
	require.NoError(t, err)
	require.NoError(t, f.Append(background, "new", epoch, 0, Record{Text: make([]byte, 10_000)}))
	require.NoError(t, f.Close())
	require.NoError(t, Check(background, dir, func(d *CorruptError) { require.Fail(t, d.Error()) }))
}

// at gives what the state may be after a number of events: that of the last step that had ended or,
// if another was under way, of that one.
func at(marks []mark, events int) []mark {
	for n := range marks {
		if events == marks[n].events {
			return marks[n : n+1]
		}
		if events < marks[n].events {
			return marks[max(0, n-1) : n+1]
		}
	}
	return marks[len(marks)-1:]
}

func TestAPowerCutAtAnyMomentLosesNothingAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	r := rand.New(rand.NewPCG(3, 4))
	t.Logf("%d steps, %d events", len(marks), len(d.events))
	for n := range len(d.events) + 1 {
		i := powercut.After(d.events[:n])
		survivors := map[string]powercut.Survivor{
			"nothing but what was synced": powercut.OnlySynced,
			"everything":                  powercut.Everything,
			"some":                        survivesBy(r, 50),
		}
		if i.Settled() {
			survivors = map[string]powercut.Survivor{"everything": powercut.Everything}
		}
		for name, s := range survivors {
			what := fmt.Sprintf("cut after event %d of %d, %s", n, len(d.events), name)
			recovered(t, i, filepath.Join(t.TempDir(), fmt.Sprint(n)), what, s, at(marks, n)...)
		}
	}
}

// survivesBy lets a part of what was not synced survive, in percent.
func survivesBy(r *rand.Rand, percent int) powercut.Survivor {
	some := func() bool { return r.IntN(100) < percent }
	return powercut.Survivor{Write: some, Name: some}
}

func TestAnyPartOfWhatWasNotSyncedMaySurvive(t *testing.T) {
	d, marks := recorded(t)
	dir := filepath.Join(t.TempDir(), "left")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, len(d.events)).Draw(t, "events")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := survivesBy(r, rapid.SampledFrom([]int{1, 50, 99}).Draw(t, "percent"))
		i := powercut.After(d.events[:n])
		recovered(t, i, dir, fmt.Sprintf("event %d", n), s, at(marks, n)...)
	})
}

// faults are what can happen to one operation.
var faults = map[string]error{"disk full": errNoSpace, "input/output error": errIO}

func TestAnyOperationMayFail(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	var states []string
	for _, m := range marks[1:] {
		states = append(states, m.state)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // waits for the disk
			for n, o := range d.operations {
				what := fmt.Sprintf("operation %d of %d, %s %s", n, len(d.operations), o.kind, o.name)
				failing(t, what, n, fault, states)
			}
		})
	}
}

// failing runs the script, after whose steps the store is in these states, until an operation
// fails, and goes on if the store does.
func failing(t *testing.T, what string, n int, fault error, states []string) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	armed := true
	var failed operation
	d.fault = func(o operation) error {
		if armed && o.n == n {
			armed, failed = false, o
			return fault
		}
		return nil
	}
	s, err := open(d.root, Options{}, d.environment())
	if err != nil {
		require.ErrorIs(t, err, fault, what)
		s, err = open(d.root, Options{}, d.environment())
		require.NoError(t, err, what)
	}
	before := ""
	for k, x := range newScript().steps() {
		err := x.do(s)
		switch {
		case s.Err() != nil:
			require.ErrorIs(t, err, fault, what)
			dead(t, what, d, s, x, err)
			reopened(t, what, d.root, before, states[k])
			return
		case err != nil && (failed.kind == "remove" || strings.Contains(err.Error(), "erasing")): // done, but for what nobody can reach any more
			require.ErrorIs(t, err, fault, what)
			require.Equal(t, states[k], mustDump(t, s), what)
			require.NoError(t, swept(s), what) // with what is deleted next
		case err != nil: // a clear error of that one call, which changed nothing and left nothing; it goes through if it is made again
			require.ErrorIs(t, err, fault, what)
			if fault == errNoSpace && failed.kind == "write" {
				require.ErrorIs(t, err, ErrNoSpace, what)
			}
			require.Equal(t, before, mustDump(t, s), what)
			noLeftovers(t, what, d.root)
			require.NoError(t, x.do(s), what)
		}
		before = states[k]
	}
	require.True(t, !armed || n >= len(d.operations), what) // bbolt chooses pages at random, which makes a run a little shorter or longer
	require.NoError(t, s.Close(), what)
	reopened(t, what, d.root, before)
}

// dead checks a store that has failed for good in a step.
func dead(t *testing.T, what string, d *disk, s *Folder, x step, err error) {
	require.ErrorIs(t, err, ErrFailed, what)
	require.Equal(t, s.Err(), err, what)
	<-s.Failed()
	operations := len(d.operations)
	_, get := s.Get(background, "a")
	for _, again := range []error{x.do(s), get, s.Append(background, "a", 1, 0, Record{Text: []byte("x")})} {
		require.Equal(t, err, again, what)
	}
	require.Equal(t, operations, len(d.operations), "%s: nothing is tried again", what)
	require.NoError(t, s.Close(), what)
}

func reopened(t *testing.T, what, dir string, may ...string) {
	require.NoError(t, Check(background, dir, func(d *CorruptError) { require.True(t, d.Stray, "%s: %v", what, d) }))
	s, err := OpenUnsynced(dir)
	require.NoError(t, err, what)
	require.Contains(t, may, mustDump(t, s), what)
	require.NoError(t, s.Close(), what)
	noLeftovers(t, what, dir)
	require.NoError(t, Check(background, dir, func(d *CorruptError) { require.Fail(t, d.Error(), what) }))
}

// noLeftovers makes sure that a folder holds what it should and nothing else.
func noLeftovers(t *testing.T, what, dir string) {
	c := &checker{f: &Folder{dir: dir, environment: environment{files: osFiles{}}}, indexed: map[string]bool{}, visit: func(d *CorruptError) {
		require.False(t, d.Stray, "%s: %v", what, d)
	}}
	require.NoError(t, c.f.withDatabase(func(r file, size int64) error {
		_, err := inspectPages(r, size, func(bucket string, key, value []byte, _ int64) {
			if id, at, err := splitKey(key); err == nil && bucket == snapshotBucket {
				s, _ := decodeSnapshot(key, value, at)
				c.indexed[s.file(id)] = true
			}
		}, c.visit)
		return err
	}), what)
	require.NoError(t, c.strays(), what)
}

func TestNothingAcknowledgedIsLostWhenTheStoreFailsUnderLoad(t *testing.T) {
	for n := 20; n < 200; n += 17 {
		d := newDisk(filepath.Join(t.TempDir(), "data"))
		s, err := open(d.root, Options{}, d.environment())
		require.NoError(t, err)
		d.fault = func(o operation) error {
			if o.n == n {
				return errIO
			}
			return nil
		}
		const writers = 16
		var accepted, offered [writers]int64
		var wait sync.WaitGroup
		for w := range writers {
			wait.Go(func() {
				id := fmt.Sprint("session-", w)
				epoch, err := s.Create(background, id, nil, 0)
				for ; err == nil; offered[w]++ {
					accepted[w] = offered[w]
					err = s.Append(background, id, epoch, offered[w], Record{Text: []byte{byte(offered[w])}})
				}
				if err != s.Err() {
					t.Errorf("%v, expected %v", err, s.Err())
				}
			})
		}
		wait.Wait()
		require.ErrorIs(t, s.Err(), errIO)
		require.NoError(t, s.Close())

		s, err = Open(d.root, Options{})
		require.NoError(t, err)
		for w := range writers {
			if offered[w] == 0 {
				continue // not even created, for all it was told
			}
			got, err := s.Get(background, fmt.Sprint("session-", w))
			require.NoError(t, err)
			require.GreaterOrEqual(t, got.End, accepted[w])
			require.LessOrEqual(t, got.End, offered[w])
		}
		mustDump(t, s)
		require.NoError(t, s.Close())
	}
}

func TestDeletedTextIsNowhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	secret, other := []byte("a secret that nobody is to find"), []byte("what all may see")
	for n := range 3 {
		id := fmt.Sprint("secret-", n)
		epoch, err := s.Create(background, id, secret, 0)
		require.NoError(t, err)
		public, err := s.Create(background, fmt.Sprint("public-", n), nil, 0)
		require.NoError(t, err)
		for k := range int64(40) {
			require.NoError(t, s.Append(background, id, epoch, k*int64(len(secret)), Record{Text: secret}))
			require.NoError(t, s.Append(background, fmt.Sprint("public-", n), public, k*int64(len(other)), Record{Text: other}))
		}
		require.NoError(t, s.WriteSnapshot(background, id, epoch, 0, func(w io.Writer) error {
			_, err := w.Write(secret)
			return err
		}))
	}
	found := func(what []byte) (n int) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				content, reading := os.ReadFile(path)
				n, err = n+bytes.Count(content, what), reading
			}
			return err
		}))
		return n
	}
	require.Greater(t, found(secret), 3*40)
	for n := range 3 {
		require.NoError(t, s.Delete(background, fmt.Sprint("secret-", n), 0))
	}
	require.Zero(t, found(secret))
	require.Zero(t, found([]byte("secret-")), "nor their names")
	require.Positive(t, found(other))
	for n := range 3 {
		got, err := s.Get(background, fmt.Sprint("public-", n))
		require.NoError(t, err)
		require.Equal(t, int64(40*len(other)), got.End)
	}
	require.NoError(t, s.Close())
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
}

func TestOnlyOneProcessWrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, err := Open(dir, Options{ReadOnly: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	epoch, err := s.Create(background, "a", nil, 0)
	require.NoError(t, err)
	for _, o := range []Options{{}, {ReadOnly: true}} {
		_, err := Open(dir, o)
		require.ErrorIs(t, err, ErrInUse)
	}
	require.ErrorIs(t, Check(background, dir, nil), ErrInUse)
	require.NoError(t, s.Close())

	one, err := Open(dir, Options{ReadOnly: true})
	require.NoError(t, err)
	two, err := Open(dir, Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorIs(t, one.Append(background, "a", epoch, 0, Record{Text: []byte("x")}), ErrReadOnly)
	require.ErrorIs(t, one.WriteSnapshot(background, "a", epoch, 0, nil), ErrReadOnly)
	require.Equal(t, mustDump(t, one), mustDump(t, two))
	require.NoError(t, errors.Join(one.Close(), two.Close()))
}

func TestAMissingDatabaseIsNotStartedAnew(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, snapshotsFolder), 0o700))
	snapshot := filepath.Join(dir, snapshotsFolder, snapshotName("a", 5))
	require.NoError(t, os.WriteFile(snapshot, []byte("x"), 0o600))
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.FileExists(t, snapshot)
	require.NoFileExists(t, filepath.Join(dir, databaseName))
	require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), nil, 0o600))
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestAMissingBucketIsDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, databaseName)
	env := new(environment)
	require.NoError(t, env.createDatabase(path))
	db, err := bbolt.Open(path, 0, env.boltOptions(false))
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(logBucket)) }))
	require.NoError(t, db.Close())
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, `buckets ["sessions" "snapshots" "store"]`)
}
