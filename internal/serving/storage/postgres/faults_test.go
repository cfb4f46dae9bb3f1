package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
