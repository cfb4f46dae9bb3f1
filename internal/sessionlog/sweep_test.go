package sessionlog

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// long makes a session of records of 64 bytes.
func long(t testing.TB, s *Folder, id string, textBytes int) {
	epoch, err := s.Create(background, id, nil, 0)
	require.NoError(t, err)
	records := make([]Record, 4096)
	for n := range records {
		records[n].Text = bytes.Repeat([]byte{'x'}, 64)
	}
	for at := int64(0); at < int64(textBytes); at += int64(len(records)) * 64 {
		require.NoError(t, s.Append(background, id, epoch, at, records...))
	}
}

// heapPeak samples the bytes of the heap's objects while something is done.
func heapPeak(do func()) (most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	<-stopped
	return most
}

// feeding appends to a session until it is stopped, and gives the longest wait.
func feeding(t testing.TB, s *Folder, stop chan struct{}) (longest time.Duration, appends int) {
	epoch, err := s.Create(background, "other", nil, 0)
	require.NoError(t, err)
	for ; ; appends++ {
		select {
		case <-stop:
			return longest, appends
		default:
		}
		began := time.Now()
		one := Record{Text: []byte("y")}
		require.NoError(t, s.Append(background, "other", epoch, int64(appends), one))
		longest = max(longest, time.Since(began))
	}
}

func TestADeletionTakesBoundedMemoryAndOthersAreFedMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const textBytes = 24 << 20
	s, err := OpenUnsynced(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	defer s.Close()
	long(t, s, "long", textBytes)
	var longest time.Duration
	var appends int
	stop := make(chan struct{})
	var wait sync.WaitGroup
	before := heapPeak(func() {})
	began := time.Now()
	peak := heapPeak(func() {
		wait.Go(func() { longest, appends = feeding(t, s, stop) })
		require.NoError(t, s.Delete(background, "long", 0))
	})
	took := time.Since(began)
	close(stop)
	wait.Wait()
	t.Logf("%v, heap of %d MB, %d before; %d appends, the longest of %v",
		took, peak>>20, before>>20, appends, longest)
	require.Less(t, peak, before+textBytes, "a commit of all of it takes four times the log")
	require.Greater(t, appends, 20)
}

// interrupted is a folder in which a deletion and a trimming have made their first commits, and no
// others.
func interrupted(t *testing.T) (s *Folder, dir string) {
	dir = filepath.Join(t.TempDir(), "data")
	want := family(t, dir)
	s, err := OpenUnsynced(dir)
	require.NoError(t, err)
	parent, err := s.Claim(background, "parent")
	require.NoError(t, err)
	require.NoError(t, s.WriteSnapshot(background, "parent", parent.Epoch, parent.End, writing("its own")))
	require.NoError(t, s.write(background, &write{drops: true, do: func(tx *bbolt.Tx) error {
		s.expunge(tx, "parent")
		s.sweep.released = nil
		return nil
	}}))
	require.NoError(t, s.write(background, &write{drops: true, do: func(tx *bbolt.Tx) error {
		e, err := find(tx, "stranger")
		e.start = 600
		s.putEntry(tx, "stranger", e)
		return err
	}}))
	got := contents(t, s)
	require.Len(t, got, 2)
	require.Equal(t, want["grand"], got["grand"])
	return s, dir
}

func TestLeftoversAreNoSessionAndNoDamageAndAreSweptAtOpening(t *testing.T) {
	s, dir := interrupted(t)
	want := contents(t, s)
	_, err := s.Create(background, "parent", nil, 0)
	require.ErrorIs(t, err, ErrExists)
	b, err := s.Backup(background)
	require.NoError(t, err)
	backup := readBackupOf(t, b)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())

	leftovers := 0
	require.NoError(t, Check(background, dir, func(d *CorruptError) {
		require.True(t, d.Stray, d)
		leftovers++
	}))
	require.Equal(t, 3, leftovers, "records of two sessions, and a snapshot")

	rescued, restored := filepath.Join(t.TempDir(), "rescued"), filepath.Join(t.TempDir(), "restored")
	var ids []string
	require.NoError(t, Rescue(background, dir, rescued, RescueOptions{
		Session:  func(r Rescued) { ids = append(ids, fmt.Sprint(r.ID, len(r.Lost))) },
		Damage:   func(d *CorruptError) { t.Error(d) },
		Progress: func(int64, int64) {},
	}))
	require.ElementsMatch(t, []string{"grand0", "stranger0"}, ids)
	require.NoError(t, Restore(background, bytes.NewReader(backup), restored, noDamage(t)))

	for _, dir := range []string{dir, rescued, restored} {
		s, err := OpenUnsynced(dir)
		require.NoError(t, err)
		require.Equal(t, want, contents(t, s))
		require.NoError(t, s.view(func(tx *bbolt.Tx) error {
			require.Empty(t, findLeftovers(tx))
			require.True(t, isTaken(tx, "parent"), "what the fork shares stays")
			return nil
		}))
		for id := range want {
			require.NoError(t, s.Delete(background, id, 0))
		}
		_, err = s.Create(background, "parent", nil, 0)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, Check(background, dir, func(d *CorruptError) { t.Error(d) }))
	}
}

// A key must not be charged for what it never had: while a deletion is swept, its leftovers are
// charged to the deleted session, and not to a fork of its beginning.
func TestAForkIsNotChargedForLeftoversThatItDoesNotShare(t *testing.T) {
	env := environment{files: unsyncedFiles{}, unsynced: true, sweepBytes: 1000}
	s, err := open(filepath.Join(t.TempDir(), "data"), Options{}, env)
	require.NoError(t, err)
	defer s.Close()
	long(t, s, "long", 1)
	_, err = s.Fork(background, "long", "fork", nil, Cut{0, 640})
	require.NoError(t, err)
	var mu sync.Mutex
	most, last, steps := int64(0), int64(-1), map[int64]bool{}
	s.Meter(func(id string, bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		if id == "fork" {
			most = max(most, bytes)
			return
		}
		last, steps[bytes] = bytes, true
	})
	require.NoError(t, s.Delete(background, "long", 0))
	require.Zero(t, last)
	require.Greater(t, len(steps), 50, "the deletion is charged for less with every commit")
	require.Less(t, most, 20*RecordCharge("long", 64))
	require.Greater(t, most, 10*int64(64))
}
