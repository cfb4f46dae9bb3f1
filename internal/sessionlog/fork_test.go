package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// place of a record or a snapshot: the session that has written it, and the offset.
type written struct {
	by string
	at int64
}

// reference is a session as simply as it can be put: all of its records, wherever they stand.
type reference struct {
	epoch     uint64
	start     int64
	records   []written
	texts     []string
	snapshots map[int64]written
	contents  map[int64]string
}

func (r *reference) end() int64 { return r.border(len(r.records)) }

// border is the offset before a record, or the end.
func (r *reference) border(n int) int64 {
	at := r.start
	for _, text := range r.texts[:n] {
		at += int64(len(text))
	}
	return at
}

// cut is a fork with so many of the records, and the snapshots that lie among them: those before a
// trimmed start stay with the parent.
func (r *reference) cut(first, last int) (*reference, Cut) {
	c := Cut{r.border(first), r.border(last)}
	fork := &reference{
		start: c.Start, records: slices.Clone(r.records[first:last]), texts: slices.Clone(r.texts[first:last]),
		snapshots: map[int64]written{}, contents: map[int64]string{},
	}
	for at, w := range r.snapshots {
		if at >= c.Start && at <= c.End {
			fork.snapshots[at], fork.contents[at] = w, r.contents[at]
		}
	}
	return fork, c
}

// forest is a folder and what it should hold.
type forest struct {
	dir      string
	s        *Folder
	sessions map[string]*reference
	bill     map[string]int64 // what each is charged
}

// open opens the folder, and has the bill told.
func (f *forest) open(t require.TestingT) {
	var err error
	f.s, err = open(f.dir, Options{}, environment{files: unsyncedFiles{}, unsynced: true, sweepBytes: 500})
	require.NoError(t, err)
	var mu sync.Mutex
	bill := map[string]int64{}
	f.s.Meter(func(id string, bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		if bill[id] = bytes; bytes == 0 {
			delete(bill, id)
		}
	})
	f.bill = bill
}

func writing(content string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

var forestIDs = []string{"a", "a-", "a0", "b", "c", "d", "e"}

func (f *forest) living(t *rapid.T) (string, *reference) {
	ids := slices.Sorted(maps.Keys(f.sessions))
	if len(ids) == 0 {
		t.Skip("no sessions")
	}
	id := rapid.SampledFrom(ids).Draw(t, "session")
	return id, f.sessions[id]
}

// free draws an id under which nothing stands.
func (f *forest) free(t *rapid.T) string {
	taken := map[string]bool{}
	for id, r := range f.sessions {
		taken[id] = true
		for _, w := range r.records {
			taken[w.by] = true
		}
		for _, w := range r.snapshots {
			taken[w.by] = true
		}
	}
	var left []string
	for _, id := range forestIDs {
		if taken[id] {
			_, err := f.s.Create(background, id, nil, 0)
			require.ErrorIs(t, err, ErrExists, id)
		} else {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		t.Skip("no id is free")
	}
	return rapid.SampledFrom(left).Draw(t, "new")
}

func (f *forest) create(t *rapid.T) {
	id := f.free(t)
	start := rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "start")
	epoch, err := f.s.Create(background, id, []byte(id), start)
	require.NoError(t, err)
	f.sessions[id] = &reference{
		epoch: epoch, start: start, snapshots: map[int64]written{}, contents: map[int64]string{},
	}
}

func (f *forest) append(t *rapid.T) {
	id, r := f.living(t)
	var records []Record
	at := r.end()
	from := at
	for range rapid.IntRange(1, 5).Draw(t, "records") {
		size := rapid.SampledFrom([]int{1, 3, 100, 3000}).Draw(t, "size")
		text := strings.Repeat(fmt.Sprintf("%s%d.", id, r.epoch), size)[:size]
		records = append(records, Record{Bits: float64(at), Text: []byte(text)})
		r.records, r.texts = append(r.records, written{id, at}), append(r.texts, text)
		at += int64(size)
	}
	require.NoError(t, f.s.Append(background, id, r.epoch, from, records...))
}

func (f *forest) fork(t *rapid.T) {
	id, from := f.free(t), ""
	from, r := f.living(t)
	first := rapid.IntRange(0, len(r.records)).Draw(t, "first")
	last := rapid.IntRange(first, len(r.records)).Draw(t, "last")
	fork, c := r.cut(first, last)
	var err error
	fork.epoch, err = f.s.Fork(background, from, id, []byte(id), c)
	require.NoError(t, err)
	f.sessions[id] = fork
}

func (f *forest) snapshot(t *rapid.T) {
	id, r := f.living(t)
	at := r.border(rapid.IntRange(0, len(r.records)).Draw(t, "border"))
	content := fmt.Sprintf("%s at %d under %d", id, at, r.epoch)
	err := f.s.WriteSnapshot(background, id, r.epoch, at, writing(content))
	shared := false
	for _, other := range f.sessions {
		shared = shared || other.snapshots[at] == written{id, at}
	}
	if _, has := r.snapshots[at]; has || shared {
		require.ErrorIs(t, err, ErrExists)
		return
	}
	require.NoError(t, err)
	r.snapshots[at], r.contents[at] = written{id, at}, content
}

func (f *forest) drop(t *rapid.T) {
	id, r := f.living(t)
	if len(r.snapshots) == 0 {
		t.Skip("no snapshots")
	}
	at := rapid.SampledFrom(slices.Sorted(maps.Keys(r.snapshots))).Draw(t, "at")
	require.NoError(t, f.s.DropSnapshot(background, id, r.epoch, at))
	delete(r.snapshots, at)
}

func (f *forest) trim(t *rapid.T) {
	id, r := f.living(t)
	if len(r.snapshots) == 0 {
		t.Skip("no snapshots")
	}
	newest := slices.Max(slices.Collect(maps.Keys(r.snapshots)))
	before := rapid.Int64Range(0, newest).Draw(t, "before")
	require.NoError(t, f.s.Trim(background, id, r.epoch, before))
	for len(r.records) > 0 && r.border(1) <= before {
		r.start, r.records, r.texts = r.border(1), r.records[1:], r.texts[1:]
	}
}

func (f *forest) delete(t *rapid.T) {
	id, r := f.living(t)
	require.NoError(t, f.s.Delete(background, id, r.epoch))
	delete(f.sessions, id)
}

// together deletes several sessions at once, and makes a fork of one of them at the same time.
func (f *forest) together(t *rapid.T) {
	id := f.free(t)
	doomed := map[string]bool{}
	for range rapid.IntRange(1, 3).Draw(t, "deletions") {
		one, _ := f.living(t)
		doomed[one] = true
	}
	from := rapid.SampledFrom(slices.Sorted(maps.Keys(doomed))).Draw(t, "from")
	parent := f.sessions[from]
	fork, c := parent.cut(0, len(parent.records))
	var wait sync.WaitGroup
	var failed [4]error
	wait.Go(func() { fork.epoch, failed[3] = f.s.Fork(background, from, id, []byte(id), c) })
	for n, one := range slices.Sorted(maps.Keys(doomed)) {
		wait.Go(func() { failed[n] = f.s.Delete(background, one, 0) })
	}
	wait.Wait()
	require.NoError(t, errors.Join(failed[:3]...))
	for one := range doomed {
		delete(f.sessions, one)
	}
	if failed[3] == nil {
		f.sessions[id] = fork
		return
	}
	require.ErrorIs(t, failed[3], ErrNotFound)
}

func (f *forest) reopen(t *rapid.T) {
	require.NoError(t, f.s.Close())
	require.NoError(t, Check(background, f.dir, func(d *CorruptError) { t.Fatal(d) }))
	before := f.bill
	f.open(t)
	require.Equal(t, before, f.bill, "what is counted at opening is what followed every call")
}

// agree compares what sessions read as, and that the folder holds what they need and nothing else,
// for which each living session is charged something, and nobody else anything.
func (f *forest) agree(t *rapid.T) {
	agrees(t, f.s, f.dir, f.sessions) // which waits until all is swept
	require.Equal(t, slices.Sorted(maps.Keys(f.sessions)), slices.Sorted(maps.Keys(f.bill)))
	sum, want := int64(0), f.s.Usage().Snapshots
	for _, bytes := range f.bill {
		sum += bytes
	}
	require.NoError(t, f.s.view(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				if string(name) != storeBucket {
					want += int64(len(key)+len(value)) + KeyCharge
				}
				return nil
			})
		})
	}))
	require.Equal(t, want, sum, "everything is charged once")
}

func agrees(t require.TestingT, s *Folder, dir string, sessions map[string]*reference) {
	require.NoError(t, swept(s))
	records, files := map[written]bool{}, map[string]bool{}
	for id, r := range sessions {
		x, err := s.Get(background, id)
		require.NoError(t, err, id)
		require.Equal(t, [2]int64{r.start, r.end()}, [2]int64{x.Start, x.End}, id)
		require.Equal(t, len(r.records) > 0, x.Last != nil)
		var texts []string
		require.NoError(t, s.Read(background, id, r.start, func(_ int64, r Record) error {
			texts = append(texts, string(r.Text))
			return nil
		}))
		require.True(t, slices.Equal(r.texts, texts), id)
		kept, err := s.Snapshots(background, id)
		require.NoError(t, err)
		require.Len(t, kept, len(r.snapshots))
		for _, k := range kept {
			require.NoError(t, s.ReadSnapshot(background, id, k.Offset, func(in io.Reader) error {
				content, err := io.ReadAll(in)
				require.Equal(t, r.contents[k.Offset], string(content))
				return err
			}))
		}
		for _, w := range r.records {
			records[w] = true
		}
		for at, w := range r.snapshots {
			files[snapshotName(w.by, at)] = true
		}
	}
	held := map[written]bool{}
	require.NoError(t, s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(logBucket)).ForEach(func(key, _ []byte) error {
			id, at, err := splitKey(key)
			held[written{id, at}] = true
			return err
		})
	}))
	require.Equal(t, records, held)
	names, err := os.ReadDir(filepath.Join(dir, snapshotsFolder))
	require.NoError(t, err)
	have := map[string]bool{}
	for _, n := range names {
		have[n.Name()] = true
	}
	require.Equal(t, files, have)
}

func TestForksShareWhatTheyHaveInCommonAndNothingElseIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent, err := os.MkdirTemp("", "forest-*")
		require.NoError(t, err)
		defer os.RemoveAll(parent)
		f := &forest{dir: filepath.Join(parent, "data"), sessions: map[string]*reference{}}
		f.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"": f.agree, "create": f.create, "append": f.append, "append more": f.append, "fork": f.fork,
			"fork again": f.fork, "snapshot": f.snapshot, "drop": f.drop, "trim": f.trim, "delete": f.delete,
			"together": f.together, "reopen": f.reopen,
		})
		f.reopen(t)
		f.agree(t)
		for id := range f.sessions { // in any order
			require.NoError(t, f.s.Delete(background, id, 0))
		}
		f.sessions = map[string]*reference{}
		f.agree(t)
		rows := 0
		require.NoError(t, f.s.view(func(tx *bbolt.Tx) error {
			if b := tx.Bucket([]byte(shareBucket)); b != nil {
				rows = b.Inspect().KeyN
			}
			return nil
		}))
		require.Zero(t, rows)
		require.NoError(t, f.s.Close())
	})
}

// generations makes forks of forks, each of which is fed.
func generations(t require.TestingT, s *Folder, count, textBytes int) (text string) {
	epoch, err := s.Create(background, "g0", nil, 0)
	require.NoError(t, err)
	for n := range count {
		id := fmt.Sprintf("g%d", n)
		piece := strings.Repeat(fmt.Sprintf("%d.", n), textBytes)[:textBytes]
		at := int64(len(text))
		require.NoError(t, s.Append(background, id, epoch, at, Record{Text: []byte(piece)}))
		text += piece
		epoch, err = s.Fork(background, id, fmt.Sprintf("g%d", n+1), nil, Cut{0, int64(len(text))})
		require.NoError(t, err)
	}
	return text
}

func TestAChainOfForksDoesNotGrowWithoutBound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	const count = 300
	text := generations(t, s, count, 20)
	most := 0
	require.NoError(t, s.view(func(tx *bbolt.Tx) error {
		for n := range count + 1 {
			e, err := find(tx, fmt.Sprintf("g%d", n))
			require.NoError(t, err)
			most = max(most, len(e.pieces))
		}
		return nil
	}))
	require.GreaterOrEqual(t, most, piecesMax)
	require.Less(t, most, piecesMax+10)
	got := func(id string) string {
		var b strings.Builder
		require.NoError(t, s.Read(background, id, 0, func(_ int64, r Record) error {
			b.Write(r.Text)
			return nil
		}))
		return b.String()
	}
	for n := range count + 1 {
		require.Equal(t, text[:20*min(n+1, count)], got(fmt.Sprintf("g%d", n)))
	}
	for n := range count {
		require.NoError(t, s.Delete(background, fmt.Sprintf("g%d", n), 0))
	}
	require.Equal(t, text, got(fmt.Sprintf("g%d", count)))
	require.NoError(t, s.Close())
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
}

// family is a folder with a session, a fork of it and a fork of that, all fed, and a stranger.
func family(t require.TestingT, dir string) map[string]string {
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	epoch := map[string]uint64{}
	feed := func(id string, at int64) int64 {
		for n := range 20 {
			r := Record{Bits: float64(at), Text: bytes.Repeat([]byte{id[0], byte('0' + n)}, 150)}
			require.NoError(t, s.Append(background, id, epoch[id], at, r))
			at += int64(len(r.Text))
		}
		return at
	}
	keep := func(id string, at int64) {
		require.NoError(t, s.WriteSnapshot(background, id, epoch[id], at, writing("state of "+id)))
	}
	make := func(id string) (err error) {
		epoch[id], err = s.Create(background, id, []byte(id), 0)
		return err
	}
	require.NoError(t, errors.Join(make("parent"), make("stranger")))
	end := feed("parent", 0)
	feed("stranger", 0)
	keep("parent", end)
	epoch["child"], err = s.Fork(background, "parent", "child", []byte("child"), Cut{0, end})
	require.NoError(t, err)
	feed("parent", end)
	end = feed("child", end)
	keep("child", end)
	epoch["grand"], err = s.Fork(background, "child", "grand", []byte("grand"), Cut{0, end})
	require.NoError(t, err)
	feed("grand", end)
	require.NoError(t, s.Delete(background, "child", 0))
	want := contents(t, s)
	require.NoError(t, s.Close())
	return want
}

func TestDamageInASharedRecordTouchesThoseThatShareItAndNoOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := family(t, dir)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.write(background, &write{do: func(tx *bbolt.Tx) error {
		key := offsetKey("parent", 300)
		value := bytes.Clone(tx.Bucket([]byte(logBucket)).Get(key))
		value[40] ^= 1
		put(tx.Bucket([]byte(logBucket)), key, value)
		return nil
	}}))
	expected := map[string]string{"parent": "", "grand": "", "stranger": want["stranger"]}
	require.Equal(t, expected, contents(t, s))
	require.NoError(t, s.Close())
	// The same after a rebuilding, which marks them.
	path := filepath.Join(dir, databaseName)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[pageBytes+60] ^= 4 // a meta page
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s, err = Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, expected, contents(t, s))
	x, err := s.Get(background, "grand")
	require.NoError(t, err)
	require.ErrorIs(t, x.Err, ErrCorrupt)
	require.NoError(t, s.Close())
}

func TestARebuildingDerivesTheSharesAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := family(t, dir)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.write(background, &write{do: func(tx *bbolt.Tx) error {
		key, value := tx.Bucket([]byte(shareBucket)).Cursor().First()
		value = bytes.Clone(value)
		value[3] ^= 1
		put(tx.Bucket([]byte(shareBucket)), key, value)
		return nil
	}}))
	require.NoError(t, s.Close())
	found := 0
	require.NoError(t, Check(background, dir, func(*CorruptError) { found++ }))
	require.Positive(t, found)
	s, err = Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, want, contents(t, s))
	require.NoError(t, s.Close())
	require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
}

func TestARescueAndACompactionKeepSharing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := family(t, dir)
	count := func(dir string) (records int) {
		s, err := Open(dir, Options{ReadOnly: true})
		require.NoError(t, err)
		require.Equal(t, want, contents(t, s))
		require.NoError(t, s.view(func(tx *bbolt.Tx) error {
			records = tx.Bucket([]byte(logBucket)).Inspect().KeyN
			return nil
		}))
		require.NoError(t, s.Close())
		require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
		return records
	}
	require.Equal(t, 5*20, count(dir))
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, Rescue(background, dir, out, RescueOptions{
		Session: func(r Rescued) { require.Empty(t, r.Lost) }, Damage: func(d *CorruptError) { t.Error(d) },
		Progress: func(int64, int64) {},
	}))
	require.Equal(t, 5*20, count(out))
	require.Equal(t, len(files(t, dir)), len(files(t, out)))
	_, err := Compact(background, dir, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 5*20, count(dir))
}

func TestARescueCutsEverySessionAtASharedGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	want := family(t, dir)
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	require.NoError(t, s.write(background, &write{do: func(tx *bbolt.Tx) error {
		drop(tx.Bucket([]byte(logBucket)), offsetKey("parent", 3000))
		return nil
	}}))
	require.NoError(t, s.Close())
	out := filepath.Join(t.TempDir(), "out")
	rescued := map[string]Rescued{}
	require.NoError(t, Rescue(background, dir, out, RescueOptions{
		Session: func(r Rescued) { rescued[r.ID] = r }, Damage: func(*CorruptError) {}, Progress: func(int64, int64) {},
	}))
	require.Len(t, rescued, 3)
	for _, id := range []string{"parent", "grand"} { // a snapshot lies behind the gap
		require.NotEmpty(t, rescued[id].Lost)
		require.Equal(t, int64(3300), rescued[id].Start)
	}
	require.Equal(t, int64(18000), rescued["grand"].End)
	require.Empty(t, rescued["stranger"].Lost)
	require.NoError(t, Check(background, out, func(d *CorruptError) { t.Error(d) }))
	s, err = Open(out, Options{})
	require.NoError(t, err)
	require.Equal(t, want["stranger"], contents(t, s)["stranger"])
	require.NoError(t, s.Close())
}

func TestCheckProvesSharesInBothDirections(t *testing.T) {
	for what, change := range map[string]func(f *Folder, tx *bbolt.Tx){
		"and there is no row of that": func(f *Folder, tx *bbolt.Tx) {
			key, _ := tx.Bucket([]byte(shareBucket)).Cursor().First()
			drop(tx.Bucket([]byte(shareBucket)), bytes.Clone(key))
		},
		"and the session has none": func(f *Folder, tx *bbolt.Tx) {
			f.reshare(tx, nil, []share{{owner: "parent", child: "stranger", extent: extent{0, 300}}})
		},
		"none from here to offset 600": func(f *Folder, tx *bbolt.Tx) {
			drop(tx.Bucket([]byte(logBucket)), offsetKey("parent", 300))
		},
		"records that no session refers to any more, from here to offset 12300": func(f *Folder, tx *bbolt.Tx) {
			key := offsetKey("child", 12_000)
			put(tx.Bucket([]byte(logBucket)), key, encodeRecord(key, &Record{Text: bytes.Repeat([]byte("x"), 300)}))
		},
		"a record of session child lies across this offset": func(f *Folder, tx *bbolt.Tx) {
			key := offsetKey("child", 11_700)
			put(tx.Bucket([]byte(logBucket)), key, encodeRecord(key, &Record{Text: bytes.Repeat([]byte("x"), 400)}))
		},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		family(t, dir)
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		require.NoError(t, s.write(background, &write{do: func(tx *bbolt.Tx) error { change(s, tx); return nil }}))
		require.NoError(t, s.Close())
		var found []string
		require.NoError(t, Check(background, dir, func(d *CorruptError) { found = append(found, d.Error()) }))
		require.Contains(t, strings.Join(found, "\n"), what)
	}
}
