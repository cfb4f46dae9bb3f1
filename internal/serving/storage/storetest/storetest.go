// Package storetest tests implementations of storage.Store. Every implementation must pass these
// tests.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Backend makes stores over one set of sessions, such as one folder or one database. It can also
// simulate failures of a store.
type Backend struct {
	// Open opens a store. A store opened after Close or Crash has the sessions of the earlier
	// store.
	Open func() (storage.Store, error)
	// Crash closes a store as if its process had crashed, and leaves an incomplete write on the
	// disk. Crash is nil for a store that keeps sessions only in memory.
	Crash func(storage.Store) error
	// Shared reports whether several stores can use the same sessions at once, as the stores of
	// several servers do.
	Shared bool
	// Cut breaks all connections of the stores to their database, and returns the number of broken
	// connections. Statements may be running on these connections. Cut is nil for a store without
	// connections.
	Cut func() int
}

func (b Backend) durable() bool { return b.Crash != nil }

// Run runs all tests of a store. The function fresh returns a backend without sessions.
func Run(t *testing.T, fresh func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
		{"the store says whether it outlives its process", durable},
		{"a session is created, described and listed", created},
		{"records come back as they were appended", appended},
		{"an append goes to the end of the log or nowhere", sequence},
		{"only the last to claim can write", fenced},
		{"an epoch is never given out twice", epochs},
		{"the head is replaced", heads},
		{"a log is read from any offset", readFrom},
		{"a reader may use the store", reentrant},
		{"the log may be trimmed up to the newest snapshot", trimmed},
		{"the last two snapshots are kept", snapshotsKept},
		{"a snapshot is replaced during a read", snapshotReplaced},
		{"a snapshot belongs to the log", snapshotsRefused},
		{"a snapshot that was not written leaves nothing", snapshotUnwritten},
		{"a session that is deleted is gone", deleted},
		{"a fork has what it was cut off", forked},
		{"a fork that cannot be made is refused", forksRefused},
		{"a fork and its origin do not notice each other", forksApart},
		{"sessions are listed by pages", pages},
		{"a list goes on while sessions come and go", listedMeanwhile},
		{"what is over the limits is refused", limits},
		{"a context ends what has not begun", canceled},
		{"appends of many sessions at once", concurrent},
		{"two writers at one session", rivals},
		{"a closed store says so", closed},
		{"any sequence of calls does what the model does", model},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
	if fresh(t).Shared {
		t.Run("two stores work on the same sessions", func(t *testing.T) { instances(t, fresh(t)) })
	}
	if fresh(t).Cut != nil {
		t.Run("reads outlive all connections", func(t *testing.T) { idleCuts(t, fresh(t)) })
		t.Run("connections may break at any moment", func(t *testing.T) { cuts(t, fresh(t)) })
	}
	if !fresh(t).durable() {
		return
	}
	t.Run("a restart after every step changes nothing",
		func(t *testing.T) { restarts(t, fresh(t), closeStore) })
	t.Run("a crash after every step changes nothing", func(t *testing.T) {
		b := fresh(t)
		restarts(t, b, b.Crash)
	})
}

var background = context.Background()

func durable(t *testing.T, b Backend) {
	require.Equal(t, b.durable(), started(t, b).Durable())
}

func open(t require.TestingT, b Backend) storage.Store {
	s, err := b.Open()
	require.NoError(t, err)
	return s
}

func started(t *testing.T, b Backend) storage.Store {
	s := open(t, b)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func closeStore(s storage.Store) error { return s.Close() }

func record(text string) storage.Record {
	return storage.Record{UnixMS: 1_700_000_000_000, Bits: 2.5 * float64(len(text)),
		Text: []byte(text)}
}

// last returns the value of Session.Last after the record r: a copy of r without its text.
func last(r storage.Record) *storage.Record {
	r.Text = nil
	return &r
}

type logged struct {
	at int64
	r  storage.Record
}

func read(s storage.Store, id string, from int64) (found []logged, err error) {
	err = s.Read(background, id, from, func(at int64, r storage.Record) error {
		r.Text = bytes.Clone(r.Text)
		found = append(found, logged{at, r})
		return nil
	})
	return found, err
}

func text(t require.TestingT, s storage.Store, id string, from int64) string {
	found, err := read(s, id, from)
	require.NoError(t, err)
	var b strings.Builder
	for _, l := range found {
		b.Write(l.r.Text)
	}
	return b.String()
}

func writer(content string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

func snapshot(t require.TestingT, s storage.Store, id string, at int64) string {
	var content []byte
	require.NoError(t, s.ReadSnapshot(background, id, at, func(r io.Reader) (err error) {
		content, err = io.ReadAll(r)
		return err
	}))
	return string(content)
}

func offsets(t require.TestingT, s storage.Store, id string) (at []int64) {
	kept, err := s.Snapshots(background, id)
	require.NoError(t, err)
	for _, k := range kept {
		at = append(at, k.Offset)
	}
	return at
}

func create(t require.TestingT, s storage.Store, id string) uint64 {
	epoch, err := s.Create(background, id, []byte("head of "+id), 0)
	require.NoError(t, err)
	return epoch
}

func created(t *testing.T, b Backend) {
	s := started(t, b)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, storage.ErrNotFound)
	epoch := create(t, s, "a")
	require.NotZero(t, epoch)
	want := storage.Session{ID: "a", Epoch: epoch, Head: []byte("head of a")}
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, want, got)
	listed, err := s.List(background, "", 10)
	require.NoError(t, err)
	require.Equal(t, []storage.Session{want}, listed)

	_, err = s.Create(background, "a", nil, 0)
	require.ErrorIs(t, err, storage.ErrExists)

	later, err := s.Create(background, "later", []byte("{}"), 1<<40)
	require.NoError(t, err)
	got, err = s.Get(background, "later")
	require.NoError(t, err)
	require.Equal(t, storage.Session{ID: "later", Epoch: later, Head: []byte("{}"), Start: 1 << 40,
		End: 1 << 40}, got)
	require.NoError(t, s.Append(background, "later", later, 1<<40, record("on")))
	require.Equal(t, "on", text(t, s, "later", 1<<40))
}

func appended(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	records := []storage.Record{
		{UnixMS: -1, Bits: math.Inf(1), Text: []byte("x")},
		{UnixMS: math.MaxInt64, Bits: 0.1, Continued: math.MaxInt64, HasBaseline: true,
			Baseline: math.SmallestNonzeroFloat64, Text: []byte("\x00\xff\n")},
		{Bits: math.Copysign(0, -1), HasBaseline: true, Text: bytes.Repeat([]byte("long "),
			100_000)},
		{Text: bytes.Repeat([]byte{7}, storage.MaxTextBytes)},
	}
	var want []logged
	at := int64(0)
	for _, r := range records {
		require.NoError(t, s.Append(background, "a", epoch, at, r))
		want = append(want, logged{at, r})
		at += int64(len(r.Text))
	}
	require.NoError(t, s.Append(background, "a", epoch, at, records...))
	for _, r := range records {
		want = append(want, logged{at, r})
		at += int64(len(r.Text))
	}
	got, err := read(s, "a", 0)
	require.NoError(t, err)
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.True(t, want[i].at == got[i].at && bytes.Equal(want[i].r.Text, got[i].r.Text),
			"record %d", i)
		require.Equal(t, math.Float64bits(want[i].r.Bits), math.Float64bits(got[i].r.Bits),
			"record %d", i)
		want[i].r.Text, got[i].r.Text = nil, nil
		require.Equal(t, want[i], got[i])
	}
	found, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, at, found.End)
}

func sequence(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("hello")))
	for _, at := range []int64{0, 4, 6, 100, math.MaxInt64 - 10} {
		err := s.Append(background, "a", epoch, at, record("again"))
		var wrong *storage.SequenceError
		require.ErrorIs(t, err, storage.ErrSequence)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, storage.SequenceError{Session: "a", Have: 5, Want: at}, *wrong)
	}
	require.Equal(t, "hello", text(t, s, "a", 0))
	require.NoError(t, s.Append(background, "a", epoch, 5, record(" "), record("world")))
	require.Equal(t, "hello world", text(t, s, "a", 0))
}

func fenced(t *testing.T, b Backend) {
	s := started(t, b)
	first := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", first, 0, record("one")))
	claimed, err := s.Claim(background, "a")
	require.NoError(t, err)
	require.Greater(t, claimed.Epoch, first)
	require.Equal(t, storage.Session{ID: "a", Epoch: claimed.Epoch, Head: []byte("head of a"),
		End: 3, Last: last(record("one"))}, claimed)

	for name, write := range map[string]func(epoch uint64) error{
		"append": func(e uint64) error { return s.Append(background, "a", e, 3, record("two")) },
		"head":   func(e uint64) error { return s.SetHead(background, "a", e, nil) },
		"snapshot": func(e uint64) error {
			return s.WriteSnapshot(background, "a", e, 3,
				writer("state"))
		},
		"trim":   func(e uint64) error { return s.Trim(background, "a", e, 0) },
		"drop":   func(e uint64) error { return s.DropSnapshot(background, "a", e, 0) },
		"delete": func(e uint64) error { return s.Delete(background, "a", e) },
	} {
		for _, epoch := range []uint64{first, claimed.Epoch + 1} {
			err := write(epoch)
			var old *storage.FencedError
			require.ErrorIs(t, err, storage.ErrFenced, name)
			require.ErrorAs(t, err, &old)
			require.Equal(t, storage.FencedError{Session: "a", Have: claimed.Epoch, Want: epoch},
				*old)
		}
	}
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, claimed, got)
	require.Empty(t, offsets(t, s, "a"))
	require.NoError(t, s.Append(background, "a", claimed.Epoch, 3, record("two")))

	_, err = s.Claim(background, "b")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.ErrorIs(t, s.Append(background, "b", 1, 0, record("x")), storage.ErrNotFound)
}

func epochs(t *testing.T, b Backend) {
	s := started(t, b)
	old := create(t, s, "a")
	require.NoError(t, s.Delete(background, "a", old))
	again := create(t, s, "a")
	require.Greater(t, again, old)
	require.ErrorIs(t, s.Append(background, "a", old, 0, record("x")), storage.ErrFenced)
	last := again
	for range 10 {
		claimed, err := s.Claim(background, "a")
		require.NoError(t, err)
		require.Greater(t, claimed.Epoch, last)
		last = claimed.Epoch
	}
}

func heads(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("text")))
	for _, head := range []string{"", "{}", strings.Repeat("h", storage.MaxHeadBytes)} {
		require.NoError(t, s.SetHead(background, "a", epoch, []byte(head)))
		got, err := s.Get(background, "a")
		require.NoError(t, err)
		require.Equal(t, head, string(got.Head))
		require.Equal(t, int64(4), got.End)
	}
}

func readFrom(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "b")
	// The other sessions have ids similar to b, because a store may keep their records next to
	// those of b.
	for _, id := range []string{"a", "b-", "b0", "bb", "c"} {
		require.NoError(t, s.Append(background, id, create(t, s, id), 0, record("not this")))
	}
	got, err := read(s, "b", 0)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, s.Append(background, "b", epoch, 0, record("abc"), record("d"),
		record("efgh")))
	for from, first := range []int64{0, 0, 0, 3, 4, 4, 4, 4} {
		got, err := read(s, "b", int64(from))
		require.NoError(t, err)
		require.Equal(t, first, got[0].at, "from %d", from)
		require.Equal(t, "abcdefgh"[first:], text(t, s, "b", int64(from)))
	}
	require.Empty(t, text(t, s, "b", 8))
	for _, from := range []int64{-1, 9} {
		_, err := read(s, "b", from)
		var wrong *storage.RangeError
		require.ErrorIs(t, err, storage.ErrRange)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, storage.RangeError{Session: "b", Offset: from, Start: 0, End: 8}, *wrong)
	}
	_, err = read(s, "bx", 0)
	require.ErrorIs(t, err, storage.ErrNotFound)

	stop := errors.New("enough")
	seen := 0
	err = s.Read(background, "b", 0, func(int64, storage.Record) error {
		seen++
		return stop
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, seen)
}

func reentrant(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	for i := range int64(20) {
		require.NoError(t, s.Append(background, "a", epoch, i*100_000,
			record(strings.Repeat("x", 100_000))))
	}
	end := int64(2_000_000)
	seen := int64(0)
	require.NoError(t, s.Read(background, "a", 0, func(at int64, r storage.Record) error {
		require.Equal(t, seen, at)
		seen += int64(len(r.Text))
		end += 50_000
		return s.Append(background, "a", epoch, end-50_000, record(strings.Repeat("y", 50_000)))
	}))
	require.Equal(t, int64(2_000_000), seen, "up to the end as it was when Read began")
}
