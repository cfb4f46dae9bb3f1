package postgres_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
	"github.com/lmserve/lmserve/internal/serving/storage/storetest"
)

func TestMain(m *testing.M) {
	// Rapid makes only a few checks, because each check opens the store several times over a
	// network.
	_ = flag.Set("rapid.checks", "25")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
	} {
		_ = os.Setenv(name, value)
	}
	os.Exit(pgtest.Main(m.Run))
}

func bucket(t testing.TB) string {
	memory := s3mem.New()
	require.NoError(t, memory.CreateBucket("states"))
	srv := httptest.NewServer(gofakes3.New(memory).Server())
	t.Cleanup(srv.Close)
	query := url.Values{"endpoint": {srv.URL}, "use_path_style": {"true"}}
	return "s3://states?" + query.Encode()
}

func folder(t testing.TB) string {
	return "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "objects"))
}

// place is a database behind a proxy, and an object store. Tests open stores that use both.
type place struct {
	server   *pgtest.Server
	proxy    *pgtest.Proxy
	database string
	objects  string
}

func newPlace(t testing.TB, server *pgtest.Server, objects string) *place {
	p := &place{server, pgtest.NewProxy(t, server), server.Database(t), objects}
	_, now, err := postgres.Migrate(t.Context(), server.URL(p.database))
	require.NoError(t, err)
	require.Positive(t, now)
	return p
}

func (p *place) options() postgres.Options {
	return postgres.Options{Database: p.proxy.URL(p.database), Objects: p.objects}
}

func (p *place) open() (storage.Store, error) {
	s, err := postgres.Open(context.Background(), p.options())
	if err != nil {
		return nil, err // not s, because a nil *postgres.Store is a non-nil storage.Store
	}
	return s, nil
}

func (p *place) backend() storetest.Backend {
	return storetest.Backend{
		Open: p.open, Shared: true, Cut: p.proxy.Cut,
		Crash: func(s storage.Store) error {
			err := s.(*postgres.Store).LeaveHalf(context.Background())
			p.proxy.Cut()
			return errors.Join(err, s.Close())
		},
	}
}

func (p *place) started(t testing.TB, o postgres.Options) *postgres.Store {
	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStoreWithBucketPassesSuite(t *testing.T) {
	server := pgtest.Shared(t)
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		return newPlace(t, server, bucket(t)).backend()
	})
}

func TestStoreWithFolderPassesSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	server := pgtest.Shared(t)
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		return newPlace(t, server, folder(t)).backend()
	})
}

func TestDatabaseWithForeignSchemaIsRefused(t *testing.T) {
	server := pgtest.Shared(t)
	at := server.URL(server.Database(t))
	o := postgres.Options{Database: at, Objects: folder(t)}
	refused := func(have int32, says string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), o)
		var wrong *postgres.SchemaError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, have, wrong.Have)
		require.ErrorContains(t, err, says)
	}
	refused(0, "run 'lmserve migrate --store URL'")
	before, now, err := postgres.Migrate(t.Context(), at)
	require.NoError(t, err)
	require.Zero(t, before)
	before, again, err := postgres.Migrate(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, []int32{now, now}, []int32{before, again}, "migrating twice changes nothing")

	s, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Exec(t.Context(), "update lmserve_schema set version = version + 1"))
	require.NoError(t, s.Close())
	refused(now+1, "or a newer version")
	_, _, err = postgres.Migrate(t.Context(), at)
	require.ErrorContains(t, err, "or a newer version")
}

func TestNonDurableDatabaseIsRefused(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Database += "&synchronous_commit=off"
	_, err := postgres.Open(t.Context(), o)
	require.ErrorIs(t, err, storage.ErrInvalid)
	require.ErrorContains(t, err, "synchronous_commit = off, expected on")
}

func TestURLsThatNameNoStoreAreRefused(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	for _, o := range []postgres.Options{
		{Database: "", Objects: p.objects},
		{Database: "mysql://user:secret@host/name", Objects: p.objects},
		{Database: "postgres://host:port/name", Objects: p.objects},
		{Database: p.options().Database, Objects: ""},
		{Database: p.options().Database, Objects: "gs://bucket"},
		{Database: p.options().Database, Objects: "file://relative/folder"},
	} {
		_, err := postgres.Open(t.Context(), o)
		require.ErrorIs(t, err, storage.ErrInvalid, "%+v", o)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestLoneStoreWaitsForOtherStore(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	o := p.options()
	o.Alone = true
	first, err := postgres.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), o)
	require.ErrorIs(t, err, storage.ErrInUse)
	p.started(t, p.options()) // a store without Alone and Node takes no lock
	o.Wait = time.Minute
	opened := make(chan error)
	go func() {
		second, err := postgres.Open(context.Background(), o)
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, <-opened)
}

func TestWhatADatabaseCannotKeepIsLocated(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	for id, damage := range map[string]string{
		"text":  `update records set text = 'damaged' where session = 'text' and at = 3`,
		"gap":   `delete from records where session = 'gap' and at = 3`,
		"words": `update records set words = '123' where session = 'words' and at = 3`,
	} {
		epoch, err := s.Create(t.Context(), id, nil, 0)
		require.NoError(t, err)
		require.NoError(t, s.Append(t.Context(), id, epoch, 0,
			storage.Record{Text: []byte("one")}, storage.Record{Text: []byte("another")},
			storage.Record{Text: []byte("last")}))
		require.NoError(t, s.Exec(t.Context(), damage))
		var seen strings.Builder
		err = s.Read(t.Context(), id, 0, func(_ int64, r storage.Record) error {
			seen.Write(r.Text)
			return nil
		})
		var where *storage.CorruptError
		require.ErrorAs(t, err, &where, id)
		require.Equal(t, []any{id, int64(3)}, []any{where.Session, where.Offset})
		require.Equal(t, "one", seen.String(), "those before the damage are visited")
	}
}

func TestDeletedSessionsLeaveNoFolders(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	s := p.started(t, p.options())
	state := func(w io.Writer) error {
		_, err := io.WriteString(w, "state")
		return err
	}
	for _, id := range []string{"a", "b"} {
		epoch, err := s.Create(t.Context(), id, nil, 0)
		require.NoError(t, err)
		require.NoError(t, s.WriteSnapshot(t.Context(), id, epoch, 0, state))
		require.NoError(t, s.DropSnapshot(t.Context(), id, epoch, 0))
		require.NoError(t, s.WriteSnapshot(t.Context(), id, epoch, 0, state))
		require.NoError(t, s.Delete(t.Context(), id, epoch))
	}
	left, err := os.ReadDir(strings.TrimPrefix(p.objects, "file://"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the marker")
}
