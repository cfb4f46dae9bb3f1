// Package storetest says what a sessionlog.Store must do, as tests that every implementation has to pass.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// Backend is a place where one store's sessions are.
type Backend struct {
	// Open opens the store. After Close, and after a crash, it opens the same one again.
	Open func() (sessionlog.Store, error)
	// Crash, if there is one, ends the store as the end of its process would, and leaves on the disk what a write that was under way may have left
	// of itself. Nil for a store that does not outlive its process.
	Crash func(sessionlog.Store) error
}

func (b Backend) durable() bool { return b.Crash != nil }

// Run runs the whole suite; fresh makes an empty backend.
func Run(t *testing.T, fresh func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
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
		{"a snapshot belongs to the log", snapshotsRefused},
		{"a snapshot that was not written leaves nothing", snapshotUnwritten},
		{"a session that is deleted is gone", deleted},
		{"sessions are listed by pages", pages},
		{"what is over the limits is refused", limits},
		{"a context ends what has not begun", cancelled},
		{"appends of many sessions at once", concurrent},
		{"two writers at one session", rivals},
		{"a closed store says so", closed},
		{"any sequence of calls does what the model does", model},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
	if !fresh(t).durable() {
		return
	}
	t.Run("a restart after every step changes nothing", func(t *testing.T) { restarts(t, fresh(t), closeStore) })
	t.Run("a crash after every step changes nothing", func(t *testing.T) {
		b := fresh(t)
		restarts(t, b, b.Crash)
	})
}

var background = context.Background()

func open(t require.TestingT, b Backend) sessionlog.Store {
	s, err := b.Open()
	require.NoError(t, err)
	return s
}

// started opens a store that is closed when the test ends.
func started(t *testing.T, b Backend) sessionlog.Store {
	s := open(t, b)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func closeStore(s sessionlog.Store) error { return s.Close() }

func record(text string) sessionlog.Record {
	return sessionlog.Record{UnixMS: 1_700_000_000_000, Bits: 2.5 * float64(len(text)), Text: []byte(text)}
}

// logged is a record where it was read.
type logged struct {
	at int64
	r  sessionlog.Record
}

func read(s sessionlog.Store, id string, from int64) (found []logged, err error) {
	err = s.Read(background, id, from, func(at int64, r sessionlog.Record) error {
		r.Text = bytes.Clone(r.Text)
		found = append(found, logged{at, r})
		return nil
	})
	return found, err
}

func text(t require.TestingT, s sessionlog.Store, id string, from int64) string {
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

func snapshot(t require.TestingT, s sessionlog.Store, id string, at int64) string {
	var content []byte
	require.NoError(t, s.ReadSnapshot(background, id, at, func(r io.Reader) (err error) {
		content, err = io.ReadAll(r)
		return err
	}))
	return string(content)
}

func offsets(t require.TestingT, s sessionlog.Store, id string) (at []int64) {
	kept, err := s.Snapshots(background, id)
	require.NoError(t, err)
	for _, k := range kept {
		at = append(at, k.Offset)
	}
	return at
}

func create(t require.TestingT, s sessionlog.Store, id string) uint64 {
	epoch, err := s.Create(background, id, []byte("head of "+id), 0)
	require.NoError(t, err)
	return epoch
}

func created(t *testing.T, b Backend) {
	s := started(t, b)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, sessionlog.ErrNotFound)
	epoch := create(t, s, "a")
	require.NotZero(t, epoch)
	want := sessionlog.Session{ID: "a", Epoch: epoch, Head: []byte("head of a")}
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, want, got)
	listed, err := s.List(background, "", 10)
	require.NoError(t, err)
	require.Equal(t, []sessionlog.Session{want}, listed)

	_, err = s.Create(background, "a", nil, 0)
	require.ErrorIs(t, err, sessionlog.ErrExists)

	later, err := s.Create(background, "later", []byte("{}"), 1<<40)
	require.NoError(t, err)
	got, err = s.Get(background, "later")
	require.NoError(t, err)
	require.Equal(t, sessionlog.Session{ID: "later", Epoch: later, Head: []byte("{}"), Start: 1 << 40, End: 1 << 40}, got)
	require.NoError(t, s.Append(background, "later", later, 1<<40, record("on")))
	require.Equal(t, "on", text(t, s, "later", 1<<40))
}

func appended(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	records := []sessionlog.Record{
		{UnixMS: -1, Bits: math.Inf(1), Text: []byte("x")},
		{UnixMS: math.MaxInt64, Bits: 0.1, HasBaseline: true, Baseline: math.SmallestNonzeroFloat64, Text: []byte("\x00\xff\n")},
		{Bits: -0.0, HasBaseline: true, Text: bytes.Repeat([]byte("long "), 100_000)},
		{Text: bytes.Repeat([]byte{7}, sessionlog.MaxTextBytes)},
	}
	var want []logged
	at := int64(0)
	for _, r := range records {
		require.NoError(t, s.Append(background, "a", epoch, at, r))
		want = append(want, logged{at, r})
		at += int64(len(r.Text))
	}
	require.NoError(t, s.Append(background, "a", epoch, at, records...)) // and all at once
	for _, r := range records {
		want = append(want, logged{at, r})
		at += int64(len(r.Text))
	}
	got, err := read(s, "a", 0)
	require.NoError(t, err)
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.True(t, want[i].at == got[i].at && bytes.Equal(want[i].r.Text, got[i].r.Text), "record %d", i)
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
	for _, at := range []int64{0, 4, 6, 100, math.MaxInt64 - 10} { // again, too early, skipped
		err := s.Append(background, "a", epoch, at, record("again"))
		var wrong *sessionlog.SequenceError
		require.ErrorIs(t, err, sessionlog.ErrSequence)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, sessionlog.SequenceError{Session: "a", Have: 5, Want: at}, *wrong)
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
	require.Equal(t, sessionlog.Session{ID: "a", Epoch: claimed.Epoch, Head: []byte("head of a"), End: 3}, claimed)

	for name, write := range map[string]func(epoch uint64) error{
		"append":   func(e uint64) error { return s.Append(background, "a", e, 3, record("two")) },
		"head":     func(e uint64) error { return s.SetHead(background, "a", e, nil) },
		"snapshot": func(e uint64) error { return s.WriteSnapshot(background, "a", e, 3, writer("state")) },
		"trim":     func(e uint64) error { return s.Trim(background, "a", e, 0) },
		"drop":     func(e uint64) error { return s.DropSnapshot(background, "a", e, 0) },
		"delete":   func(e uint64) error { return s.Delete(background, "a", e) },
	} {
		for _, epoch := range []uint64{first, claimed.Epoch + 1} {
			err := write(epoch)
			var old *sessionlog.FencedError
			require.ErrorIs(t, err, sessionlog.ErrFenced, name)
			require.ErrorAs(t, err, &old)
			require.Equal(t, sessionlog.FencedError{Session: "a", Have: claimed.Epoch, Want: epoch}, *old)
		}
	}
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, claimed, got)
	require.Empty(t, offsets(t, s, "a"))
	require.NoError(t, s.Append(background, "a", claimed.Epoch, 3, record("two")))

	_, err = s.Claim(background, "b")
	require.ErrorIs(t, err, sessionlog.ErrNotFound)
	require.ErrorIs(t, s.Append(background, "b", 1, 0, record("x")), sessionlog.ErrNotFound)
}

func epochs(t *testing.T, b Backend) {
	s := started(t, b)
	old := create(t, s, "a")
	require.NoError(t, s.Delete(background, "a", old))
	again := create(t, s, "a")
	require.Greater(t, again, old)
	require.ErrorIs(t, s.Append(background, "a", old, 0, record("x")), sessionlog.ErrFenced)
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
	for _, head := range []string{"", "{}", strings.Repeat("h", sessionlog.MaxHeadBytes)} {
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
	for _, id := range []string{"a", "b-", "b0", "bb", "c"} { // neighbours in any order of keys
		require.NoError(t, s.Append(background, id, create(t, s, id), 0, record("not this")))
	}
	got, err := read(s, "b", 0)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, s.Append(background, "b", epoch, 0, record("abc"), record("d"), record("efgh")))
	for from, first := range []int64{0, 0, 0, 3, 4, 4, 4, 4} {
		got, err := read(s, "b", int64(from))
		require.NoError(t, err)
		require.Equal(t, first, got[0].at, "from %d", from)
		require.Equal(t, "abcdefgh"[first:], text(t, s, "b", int64(from)))
	}
	require.Empty(t, text(t, s, "b", 8))
	for _, from := range []int64{-1, 9} {
		_, err := read(s, "b", from)
		var wrong *sessionlog.RangeError
		require.ErrorIs(t, err, sessionlog.ErrRange)
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, sessionlog.RangeError{Session: "b", Offset: from, Start: 0, End: 8}, *wrong)
	}
	_, err = read(s, "bx", 0)
	require.ErrorIs(t, err, sessionlog.ErrNotFound)

	stop := errors.New("enough")
	seen := 0
	err = s.Read(background, "b", 0, func(int64, sessionlog.Record) error {
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
		require.NoError(t, s.Append(background, "a", epoch, i*100_000, record(strings.Repeat("x", 100_000))))
	}
	end := int64(2_000_000)
	seen := int64(0)
	require.NoError(t, s.Read(background, "a", 0, func(at int64, r sessionlog.Record) error {
		require.Equal(t, seen, at)
		seen += int64(len(r.Text))
		end += 50_000
		return s.Append(background, "a", epoch, end-50_000, record(strings.Repeat("y", 50_000)))
	}))
	require.Equal(t, int64(2_000_000), seen, "up to the end as it was when Read began")
}

func trimmed(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("abc"), record("def"), record("ghi")))
	require.ErrorIs(t, s.Trim(background, "a", epoch, 3), sessionlog.ErrRange, "no snapshot yet")
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 5, writer("state")))
	require.ErrorIs(t, s.Trim(background, "a", epoch, 6), sessionlog.ErrRange, "snapshot is older")
	require.ErrorIs(t, s.Trim(background, "a", epoch, -1), sessionlog.ErrRange)
	require.NoError(t, s.Trim(background, "a", epoch, 2))
	require.Equal(t, "abcdefghi", text(t, s, "a", 0), "a record that goes on behind the offset stays")
	require.NoError(t, s.Trim(background, "a", epoch, 5))
	got, err := s.Get(background, "a")
	require.NoError(t, err)
	require.Equal(t, sessionlog.Session{ID: "a", Epoch: epoch, Head: []byte("head of a"), Start: 3, End: 9}, got)
	require.Equal(t, "defghi", text(t, s, "a", 3))
	_, err = read(s, "a", 2)
	require.ErrorIs(t, err, sessionlog.ErrRange)

	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 9, writer("state")))
	require.NoError(t, s.Trim(background, "a", epoch, 9))
	require.Empty(t, text(t, s, "a", 9))
	require.ErrorIs(t, s.Append(background, "a", epoch, 0, record("x")), sessionlog.ErrSequence)
	require.NoError(t, s.Append(background, "a", epoch, 9, record("on")), "an empty log still knows its end")
	require.NoError(t, s.Trim(background, "a", epoch, 3), "already")
}

func snapshotsKept(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	other := create(t, s, "a-")
	require.NoError(t, s.WriteSnapshot(background, "a-", other, 0, writer("other")))
	content := map[int64]string{}
	for i := range int64(5) {
		at := i * 5
		content[at] = strings.Repeat(fmt.Sprintf("state at %d;", at), 100_000)
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, at, writer(content[at])))
		require.NoError(t, s.Append(background, "a", epoch, at, record("12345")))
		kept, err := s.Snapshots(background, "a")
		require.NoError(t, err)
		require.Len(t, kept, min(int(i)+1, sessionlog.KeptSnapshots))
		for _, k := range kept {
			require.Positive(t, k.Bytes)
			require.NotZero(t, k.SHA256)
			require.Equal(t, content[k.Offset], snapshot(t, s, "a", k.Offset))
		}
	}
	require.Equal(t, []int64{15, 20}, offsets(t, s, "a"))
	require.ErrorIs(t, s.ReadSnapshot(background, "a", 10, nil), sessionlog.ErrNotFound)
	require.ErrorIs(t, s.ReadSnapshot(background, "b", 10, nil), sessionlog.ErrNotFound)

	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 17, writer("between")))
	require.Equal(t, []int64{17, 20}, offsets(t, s, "a"))
	require.NoError(t, s.DropSnapshot(background, "a", epoch, 20))
	require.ErrorIs(t, s.DropSnapshot(background, "a", epoch, 20), sessionlog.ErrNotFound)
	require.Equal(t, []int64{17}, offsets(t, s, "a"))
	require.NoError(t, s.WriteSnapshot(background, "a", epoch, 20, writer("anew")))
	require.Equal(t, "anew", snapshot(t, s, "a", 20))
	require.Equal(t, "between", snapshot(t, s, "a", 17))
	require.Equal(t, "other", snapshot(t, s, "a-", 0))
}

func snapshotsRefused(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("12345")))
	for _, at := range []int64{-1, 6} {
		require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, at, writer("x")), sessionlog.ErrRange)
	}
	for _, at := range []int64{2, 4} {
		require.NoError(t, s.WriteSnapshot(background, "a", epoch, at, writer("x")))
		require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, at, writer("y")), sessionlog.ErrExists)
	}
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 1, writer("x")), sessionlog.ErrRange, "it would be dropped at once")
	require.Equal(t, []int64{2, 4}, offsets(t, s, "a"))
	require.Equal(t, "x", snapshot(t, s, "a", 2))
	require.ErrorIs(t, s.WriteSnapshot(background, "b", epoch, 0, writer("x")), sessionlog.ErrNotFound)
}

func snapshotUnwritten(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	broken := errors.New("broken")
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
		require.NoError(t, writer(strings.Repeat("part", 1<<20))(w))
		return broken
	}), broken)
	require.Empty(t, offsets(t, s, "a"))
	// Claimed by another while it is written.
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, func(w io.Writer) error {
		_, err := s.Claim(background, "a")
		return errors.Join(err, writer("late")(w))
	}), sessionlog.ErrFenced)
	require.Empty(t, offsets(t, s, "a"))
	require.ErrorIs(t, s.ReadSnapshot(background, "a", 0, nil), sessionlog.ErrNotFound)
	require.NoError(t, s.Err())
}

func deleted(t *testing.T, b Backend) {
	s := started(t, b)
	epoch, other := create(t, s, "a"), create(t, s, "a0")
	for _, id := range []string{"a", "a0"} {
		e := map[string]uint64{"a": epoch, "a0": other}[id]
		require.NoError(t, s.Append(background, id, e, 0, record("text of "), record(id)))
		require.NoError(t, s.WriteSnapshot(background, id, e, 8, writer("state of "+id)))
	}
	require.NoError(t, s.Delete(background, "a", epoch))
	require.ErrorIs(t, s.Delete(background, "a", epoch), sessionlog.ErrNotFound)
	require.ErrorIs(t, s.Delete(background, "a", 0), sessionlog.ErrNotFound)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, sessionlog.ErrNotFound)
	_, err = read(s, "a", 0)
	require.ErrorIs(t, err, sessionlog.ErrNotFound)
	_, err = s.Snapshots(background, "a")
	require.ErrorIs(t, err, sessionlog.ErrNotFound)
	require.ErrorIs(t, s.Append(background, "a", epoch, 9, record("x")), sessionlog.ErrNotFound)
	require.Equal(t, "text of a0", text(t, s, "a0", 0))
	require.Equal(t, "state of a0", snapshot(t, s, "a0", 8))
	create(t, s, "a")
	require.Empty(t, text(t, s, "a", 0), "nothing of the one that had the name before")
	require.Empty(t, offsets(t, s, "a"))
	require.NoError(t, s.Delete(background, "a0", 0), "epoch 0 is anyone's")
}

func pages(t *testing.T, b Backend) {
	s := started(t, b)
	want := map[string]int64{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for w := range 8 {
		wait.Go(func() {
			for i := w; i < 250; i += 8 {
				id := fmt.Sprintf("%x-%d", i*2654435761%1000, i)
				epoch, err := s.Create(background, id, []byte(id), 0)
				if err == nil && i%3 == 0 {
					err = s.Append(background, id, epoch, 0, record(id))
				}
				mu.Lock()
				if want[id] = 0; i%3 == 0 {
					want[id] = int64(len(id))
				}
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for _, limit := range []int{1, 7, 250, 1000} {
		got := map[string]int64{}
		after := ""
		for {
			page, err := s.List(background, after, limit)
			require.NoError(t, err)
			for i, found := range page {
				require.Greater(t, found.ID, after)
				require.Equal(t, found.ID, string(found.Head))
				require.NoError(t, found.Err)
				after = found.ID
				got[found.ID] = found.End
				require.Less(t, i, limit)
			}
			if len(page) < limit {
				break
			}
		}
		require.Equal(t, want, got)
	}
	_, err := s.List(background, "", 0)
	require.ErrorIs(t, err, sessionlog.ErrInvalid)
}

func limits(t *testing.T, b Backend) {
	s := started(t, b)
	for _, id := range []string{"", "-a", "A", "a.b", "a/b", "../a", "a\x00", "é", strings.Repeat("a", sessionlog.MaxIDBytes+1)} {
		_, err := s.Create(background, id, nil, 0)
		require.ErrorIs(t, err, sessionlog.ErrInvalid, "%q", id)
		_, err = s.Get(background, id)
		require.ErrorIs(t, err, sessionlog.ErrNotFound, "%q", id)
	}
	long := strings.Repeat("z", sessionlog.MaxIDBytes)
	epoch := create(t, s, long)
	_, err := s.Create(background, "a", nil, -1)
	require.ErrorIs(t, err, sessionlog.ErrInvalid)
	big := make([]byte, sessionlog.MaxHeadBytes+1)
	_, err = s.Create(background, "a", big, 0)
	require.ErrorIs(t, err, sessionlog.ErrInvalid)
	require.ErrorIs(t, s.SetHead(background, long, epoch, big), sessionlog.ErrInvalid)
	for _, n := range []int{0, sessionlog.MaxTextBytes + 1} {
		err := s.Append(background, long, epoch, 0, record("good"), sessionlog.Record{Text: make([]byte, n)})
		require.ErrorIs(t, err, sessionlog.ErrInvalid)
	}
	require.ErrorIs(t, s.Append(background, long, epoch, 0), sessionlog.ErrInvalid)
	require.ErrorIs(t, s.Append(background, long, epoch, -1, record("x")), sessionlog.ErrInvalid)
	far, err := s.Create(background, "far", nil, math.MaxInt64-3)
	require.NoError(t, err)
	require.ErrorIs(t, s.Append(background, "far", far, math.MaxInt64-3, record("12"), record("34")), sessionlog.ErrInvalid)
	require.NoError(t, s.Append(background, "far", far, math.MaxInt64-3, record("12")))
	require.Empty(t, text(t, s, long, 0))
}

func cancelled(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("x")))
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := s.Create(ctx, "b", nil, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Claim(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.List(ctx, "", 10)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Append(ctx, "a", epoch, 1, record("y")), context.Canceled)
	require.ErrorIs(t, s.Read(ctx, "a", 0, nil), context.Canceled)
	require.ErrorIs(t, s.WriteSnapshot(ctx, "a", epoch, 1, writer("x")), context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, "a", epoch), context.Canceled)
	require.Equal(t, "x", text(t, s, "a", 0))

	// An append that was given up has been made, or not; the error tells which.
	at := int64(1)
	for range 200 {
		ctx, cancel := context.WithCancel(background)
		go cancel()
		if err := s.Append(ctx, "a", epoch, at, record("z")); err == nil {
			at++
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		found, err := s.Get(background, "a")
		require.NoError(t, err)
		require.Equal(t, at, found.End)
	}
}

func concurrent(t *testing.T, b Backend) {
	s := started(t, b)
	const sessions, each = 32, 40
	var wait sync.WaitGroup
	for w := range sessions {
		wait.Go(func() {
			id := fmt.Sprintf("session-%d", w)
			epoch, err := s.Create(background, id, nil, 0)
			at := int64(0)
			for i := 0; i < each && err == nil; i++ {
				r := record(strings.Repeat(fmt.Sprintf("%d:%d ", w, i), 1+i%30))
				err = s.Append(background, id, epoch, at, r)
				at += int64(len(r.Text))
				if i%16 == 15 && err == nil {
					err = s.WriteSnapshot(background, id, epoch, at, writer(id))
				}
				if i%20 == 19 && err == nil {
					err = s.Read(background, id, 0, func(int64, sessionlog.Record) error { return nil })
				}
			}
			if w%8 == 7 && err == nil {
				err = s.Delete(background, id, epoch)
			}
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wait.Wait()
	for w := range sessions {
		id := fmt.Sprintf("session-%d", w)
		if w%8 == 7 {
			_, err := s.Get(background, id)
			require.ErrorIs(t, err, sessionlog.ErrNotFound)
			continue
		}
		var want strings.Builder
		for i := range each {
			want.WriteString(strings.Repeat(fmt.Sprintf("%d:%d ", w, i), 1+i%30))
		}
		require.True(t, want.String() == text(t, s, id, 0), id)
	}
}

// rivals lets writers take a session from each other: what each was told is in the log, and nothing else is.
func rivals(t *testing.T, b Backend) {
	s := started(t, b)
	create(t, s, "a")
	var mu sync.Mutex
	accepted := map[int64]string{}
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := range 30 {
				mine, err := s.Claim(background, "a")
				if err != nil {
					t.Error(err)
					return
				}
				for at, k := mine.End, 0; k < 3; k++ {
					r := record(fmt.Sprintf("<%d.%d.%d>", w, i, k))
					if err = s.Append(background, "a", mine.Epoch, at, r); err != nil {
						break
					}
					mu.Lock()
					accepted[at] = string(r.Text)
					mu.Unlock()
					at += int64(len(r.Text))
				}
				if err != nil && !errors.Is(err, sessionlog.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	got, err := read(s, "a", 0)
	require.NoError(t, err)
	for _, l := range got {
		require.Equal(t, accepted[l.at], string(l.r.Text))
	}
	require.Equal(t, len(accepted), len(got))
}

func closed(t *testing.T, b Backend) {
	s := open(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), sessionlog.ErrClosed)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, sessionlog.ErrClosed)
	_, err = s.List(background, "", 1)
	require.ErrorIs(t, err, sessionlog.ErrClosed)
	require.ErrorIs(t, s.Append(background, "a", epoch, 0, record("x")), sessionlog.ErrClosed)
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, writer("x")), sessionlog.ErrClosed)
	select {
	case <-s.Failed():
		t.Fatal("a store that was closed has not failed")
	default:
	}
}
