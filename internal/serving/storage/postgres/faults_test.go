package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/cluster"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
	"github.com/lmserve/lmserve/internal/serving/storage/storetest"
)

func record(text string) storage.Record { return storage.Record{Text: []byte(text)} }

func textOf(t *testing.T, s storage.Store, id string) string {
	var b strings.Builder
	require.NoError(t, s.Read(t.Context(), id, 0, func(_ int64, r storage.Record) error {
		b.Write(r.Text)
		return nil
	}))
	return b.String()
}

// single opens a store with only one connection, and runs each statement of the tests once. The
// database has then prepared the statements. So the next request on the connection runs a
// statement, and does not prepare one.
func (p *place) single(t *testing.T) (s *postgres.Store, epoch uint64) {
	o := p.options()
	o.Database += "&pool_max_conns=1"
	s = p.started(t, o)
	epoch, err := s.Create(t.Context(), "a", []byte("old"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one ")))
	require.NoError(t, s.SetHead(t.Context(), "a", epoch, []byte("old")))
	return s, epoch
}

func TestAppendWithLostConnectionIsMadeOnce(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	for name, fault := range map[string]pgtest.Fault{
		"the request is lost": pgtest.LoseRequest, "the answer is lost": pgtest.LoseAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			s, epoch := p.single(t)
			p.proxy.Next(fault, 0)
			require.NoError(t, s.Append(t.Context(), "a", epoch, 4, record("two "),
				record("three ")))
			require.NoError(t, s.Append(t.Context(), "a", epoch, 14, record("four")))
			require.Equal(t, "one two three four", textOf(t, s, "a"))
			require.NoError(t, s.Delete(t.Context(), "a", epoch))
		})
	}
}

func TestLateAppendDoesNothing(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s, epoch := p.single(t)
	p.proxy.Next(pgtest.Late, 0)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 4, record("two ")))
	p.proxy.Deliver()
	require.NoError(t, s.Append(t.Context(), "a", epoch, 8, record("three")))
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, "one two three", textOf(t, s, "a"))
}

func TestAppendOfUnknownOutcomeIsReported(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s, epoch := p.single(t)
	rival := p.started(t, postgres.Options{Database: p.server.URL(p.database), Objects: p.objects})
	p.proxy.Next(pgtest.LoseAnswer, 0)
	claimed := make(chan error)
	go func() { // tries to claim the session before Append repeats its statement
		for {
			found, err := rival.Get(context.Background(), "a")
			if err == nil && found.End > 4 {
				_, err = rival.Claim(context.Background(), "a")
				claimed <- err
				return
			}
		}
	}()
	err := s.Append(t.Context(), "a", epoch, 4, record("two "))
	require.NoError(t, <-claimed)
	if err != nil { // err is nil if the append was repeated before the claim
		require.ErrorIs(t, err, storage.ErrUnknown)
	}
	require.Equal(t, "one two ", textOf(t, s, "a"))
}

func TestLateHeadIsFencedByNextClaim(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s, epoch := p.single(t)
	p.proxy.Next(pgtest.Late, 0)
	err := s.SetHead(t.Context(), "a", epoch, []byte("late"))
	require.ErrorIs(t, err, storage.ErrUnavailable, "its transaction had not begun")
	found, err := s.Claim(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, s.SetHead(t.Context(), "a", found.Epoch, []byte("new")))
	p.proxy.Deliver()
	time.Sleep(200 * time.Millisecond)
	found, err = s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "new", string(found.Head))
}

func TestCommitWithLostAnswerIsReportedAsUnknown(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s, epoch := p.single(t)
	// the fourth request is the commit, after begin, select and update
	p.proxy.Next(pgtest.LoseAnswer, 3)
	require.ErrorIs(t, s.SetHead(t.Context(), "a", epoch, []byte("new")), storage.ErrUnknown)
	found, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "new", string(found.Head), "this one was made")

	// This call prepares the statements on the new connection.
	require.NoError(t, s.SetHead(t.Context(), "a", epoch, []byte("new")))
	p.proxy.Next(pgtest.LoseRequest, 3)
	require.ErrorIs(t, s.SetHead(t.Context(), "a", epoch, []byte("newer")), storage.ErrUnknown)
	found, err = s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "new", string(found.Head), "and this one was not")
}

func TestReadsContinueAfterRestartOfDatabase(t *testing.T) {
	server := pgtest.New(t)
	p := newPlace(t, server, folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one")))
	server.Kill()
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorIs(t, s.SetHead(t.Context(), "a", epoch, nil), storage.ErrUnavailable)
	require.NoError(t, server.Start())
	require.Equal(t, "one", textOf(t, s, "a"))
	require.NoError(t, s.Append(t.Context(), "a", epoch, 3, record(" two")))
	require.Equal(t, "one two", textOf(t, s, "a"))
}

func TestDatabaseServerIsKilledAfterEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	server := pgtest.New(t)
	p := newPlace(t, server, folder(t))
	storetest.Stops(t, p.backend(), func(s storage.Store) error {
		server.Kill()
		return errors.Join(s.Close(), server.Start())
	})
}

func TestDatabaseServerIsKilledAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	server := pgtest.New(t)
	p := newPlace(t, server, folder(t))
	kills := 0
	storetest.Histories(t, p.backend(), 4, 40, func() {
		server.Kill()
		require.NoError(t, server.Start())
		kills++
	})
	require.Positive(t, kills)
	t.Logf("the server was killed %d times", kills)
}

func TestSweepRemovesWhatIsNoSnapshot(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), bucket(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	state := func(w io.Writer) error {
		_, err := io.WriteString(w, "state")
		return err
	}
	require.NoError(t, s.WriteSnapshot(t.Context(), "a", epoch, 0, state))
	require.NoError(t, s.LeaveHalf(t.Context()))
	require.NoError(t, s.Sweep(t.Context(), time.Hour))
	names, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 2, "an object that may still be written stays")

	require.NoError(t, s.Sweep(t.Context(), 0))
	names, err = s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 1)
	n, err := s.Objects(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)

	var read bytes.Buffer
	require.NoError(t, s.ReadSnapshot(t.Context(), "a", 0, func(r io.Reader) error {
		_, err := io.Copy(&read, r)
		return err
	}))
	require.Equal(t, "state", read.String())
	require.NoError(t, s.Delete(t.Context(), "a", epoch))
	names, err = s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Empty(t, names, "nothing is left of a session that was deleted")
}

// The oldest object cannot be removed, and more objects than one batch of a sweep are behind it.
func TestSweepPassesObjectThatStays(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	require.NoError(t, s.LeaveHalf(t.Context()))
	first, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Len(t, first, 1)
	for range postgres.SweepBatch {
		require.NoError(t, s.LeaveHalf(t.Context()))
	}
	// os.Remove cannot remove a folder with a file.
	stays := filepath.Join(strings.TrimPrefix(p.objects, "file://"), first[0])
	require.NoError(t, os.Remove(stays))
	require.NoError(t, os.Mkdir(stays, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(stays, "file"), nil, 0o600))

	left := func() int {
		t.Helper()
		n, err := s.Objects(t.Context())
		require.NoError(t, err)
		return n
	}
	require.ErrorContains(t, s.Sweep(t.Context(), 0), first[0])
	require.Equal(t, 1, left())
	names, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{first[0] + "/file"}, names)
	require.NoError(t, os.Remove(filepath.Join(stays, "file")))
	require.NoError(t, s.Sweep(t.Context(), 0), "the next sweep removes it")
	require.Zero(t, left())
}

func TestSnapshotOvertakenBySweepIsRefused(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	err = s.WriteSnapshot(t.Context(), "a", epoch, 0, func(w io.Writer) error {
		return s.Sweep(t.Context(), 0) // as if the write took longer than sweepAge
	})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	kept, err := s.Snapshots(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, kept)
	names, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestDamagedObjectIsReportedBeforeReading(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.WriteSnapshot(t.Context(), "a", epoch, 0, func(w io.Writer) error {
		_, err := io.WriteString(w, "state")
		return err
	}))
	names, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 1)
	for _, spoil := range []func() error{
		func() error { return s.Overwrite(t.Context(), names[0], []byte("something else")) },
		// nil removes the object
		func() error { return s.Overwrite(t.Context(), names[0], nil) },
	} {
		require.NoError(t, spoil())
		err := s.ReadSnapshot(t.Context(), "a", 0, func(io.Reader) error {
			t.Error("a damaged snapshot was read")
			return nil
		})
		var where *storage.CorruptError
		require.ErrorAs(t, err, &where)
		require.Equal(t, "a", where.Session)
		require.ErrorContains(t, err, names[0])
	}
}

func TestReadGetsSnapshotThatReplacesAnother(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, writeState(t.Context(), s, "a", epoch, 0))
	s.BeforeRead(func() {
		require.NoError(t, s.DropSnapshot(t.Context(), "a", epoch, 0))
		require.NoError(t, writeState(t.Context(), s, "a", epoch, 0))
	})
	state, err := readState(t.Context(), s, "a", 0)
	require.NoError(t, err)
	require.Equal(t, "state of a", state)
}

// A server hands over its sessions when it shuts down. For each session it takes a snapshot and
// releases the session.
func TestHungDatabaseDelaysNoHandOver(t *testing.T) {
	for name, call := range map[string]func(context.Context, *postgres.Store, uint64) error{
		"snapshot": func(ctx context.Context, s *postgres.Store, epoch uint64) error {
			return s.WriteSnapshot(ctx, "a", epoch, 0, func(io.Writer) error { return nil })
		},
		"release": func(ctx context.Context, s *postgres.Store, epoch uint64) error {
			return s.Release(ctx, "a", epoch, 0)
		},
	} {
		p := newPlace(t, pgtest.Shared(t), folder(t))
		s := p.started(t, p.options())
		epoch, err := s.Create(t.Context(), "a", nil, 0)
		require.NoError(t, err)
		p.proxy.Hold()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := time.Now()
		require.Error(t, call(ctx, s, epoch), name)
		require.Less(t, time.Since(begun), 10*time.Second, name)
		cancel()
		p.proxy.Release()
	}
}

// A load balancer may accept a connection for a database server that has just died.
func TestLostConnectingDelaysRequestsBriefly(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Database += "&pool_max_conns=2"
	s := p.started(t, o)
	_, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	busy, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() { _ = s.Exec(busy, `select pg_sleep(60)`) }) // uses the other connection
	defer other.Wait()
	defer stop()
	time.Sleep(100 * time.Millisecond)
	get := func() error {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Get(soon, "a")
		return err
	}
	p.proxy.Next(pgtest.Ignore, 0)
	require.Error(t, get())
	require.Eventually(t, func() bool { return get() == nil }, 20*time.Second,
		100*time.Millisecond)
}

// A firewall may forget idle connections. The lease of 10 s then must not lapse.
func TestForgottenConnectionsDelayRequestsBriefly(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Node = "one-1"
	s := p.started(t, o)
	self := cluster.Node{ID: o.Node, Name: "one"}
	renew := func() error {
		soon, cancel := context.WithTimeout(t.Context(), cluster.LeaseDefault/2)
		defer cancel()
		_, _, err := s.Renew(soon, self, cluster.LeaseDefault)
		return err
	}
	require.NoError(t, renew())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	time.Sleep(2 * time.Second)
	p.proxy.Freeze()
	require.NoError(t, renew())
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Append(soon, "a", epoch, 0, record("one")))
}

// A fork of a long log takes minutes.
func TestForkDelaysNoWriteToItsOrigin(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Database += "&lock_timeout=5s"
	s := p.started(t, o)
	state := func(w io.Writer) error {
		_, err := io.WriteString(w, "state")
		return err
	}
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one")))
	require.NoError(t, s.WriteSnapshot(t.Context(), "a", epoch, 0, state))

	conn, err := pgx.Connect(t.Context(), p.server.URL(p.database))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select from objects for update`) // makes the fork wait
	require.NoError(t, err)
	forked := make(chan error)
	go func() {
		_, err := s.Fork(context.Background(), "a", "b", nil, storage.Cut{End: 3})
		forked <- err
	}()
	require.Eventually(t, func() bool {
		var waits bool
		err := tx.QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.SetHead(t.Context(), "a", epoch, []byte("new")))
	require.NoError(t, s.WriteSnapshot(t.Context(), "a", epoch, 3, state))
	found, err := s.Claim(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-forked)
	require.NoError(t, s.Delete(t.Context(), "a", found.Epoch))
	require.Equal(t, "one", textOf(t, s, "b"))
}

// Deleting millions of records takes longer than other statements.
func TestLongLogCanBeDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one")))
	require.NoError(t, s.Exec(t.Context(), `
		create function slowly() returns trigger language plpgsql as
			'begin perform pg_sleep(35); return old; end';
		create trigger slowly before delete on records for each row execute function slowly()`))
	require.NoError(t, s.Delete(t.Context(), "a", epoch))
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, storage.ErrNotFound)
}

func TestLossOfAllRecordsIsFound(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one")))
	require.NoError(t, s.Exec(t.Context(), `delete from records`))
	found, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.ErrorIs(t, found.Err, storage.ErrCorrupt)
	_, err = s.Claim(t.Context(), "a")
	require.ErrorIs(t, err, storage.ErrCorrupt)
}
