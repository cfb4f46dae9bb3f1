package postgres_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

// aways returns functions that make object stores. away replaces the object store at its URL by a
// wrong one, and back undoes that.
func aways() map[string]func(t *testing.T) (objects string, away, back func()) {
	rename := func(t *testing.T, from, to string) { require.NoError(t, os.Rename(from, to)) }
	folderFor := func(put func(t *testing.T, dir string)) func(t *testing.T) (string, func(),
		func()) {
		return func(t *testing.T) (string, func(), func()) {
			dir := filepath.Join(t.TempDir(), "objects")
			kept := dir + ".kept"
			return "file://" + filepath.ToSlash(dir),
				func() { rename(t, dir, kept); put(t, dir) },
				func() { require.NoError(t, os.RemoveAll(dir)); rename(t, kept, dir) }
		}
	}
	return map[string]func(t *testing.T) (string, func(), func()){
		"a folder is not mounted": folderFor(func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
		}),
		"a folder is missing": folderFor(func(*testing.T, string) {}),
		"a folder is another database's": folderFor(func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, postgres.MarkerName),
				[]byte("other\n"), 0o600))
		}),
		"a bucket is another": func(t *testing.T) (string, func(), func()) {
			var now atomic.Pointer[gofakes3.GoFakeS3]
			fresh := func() *gofakes3.GoFakeS3 {
				memory := s3mem.New()
				require.NoError(t, memory.CreateBucket("states"))
				return gofakes3.New(memory)
			}
			kept := fresh()
			now.Store(kept)
			srv := httptest.NewServer(handler(func() *gofakes3.GoFakeS3 { return now.Load() }))
			t.Cleanup(srv.Close)
			query := url.Values{"endpoint": {srv.URL}, "use_path_style": {"true"}}
			return "s3://states?" + query.Encode(), func() { now.Store(fresh()) },
				func() { now.Store(kept) }
		},
	}
}

func writeState(ctx context.Context, s *postgres.Store, id string, epoch uint64, at int64) error {
	return s.WriteSnapshot(ctx, id, epoch, at, func(w io.Writer) error {
		_, err := io.WriteString(w, "state of "+id)
		return err
	})
}

func readState(ctx context.Context, s *postgres.Store, id string, at int64) (state string,
	err error) {
	err = s.ReadSnapshot(ctx, id, at, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		state = string(text)
		return err
	})
	return state, err
}

func TestUnreachableObjectStoreLosesNothing(t *testing.T) {
	for name, make := range aways() {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			objects, away, back := make(t)
			p := newPlace(t, pgtest.Shared(t), objects)
			o := p.options()
			reports := &reports{}
			o.Report = reports.note
			s := p.started(t, o)
			epoch, err := s.Create(ctx, "a", nil, 0)
			require.NoError(t, err)
			require.NoError(t, s.Append(ctx, "a", epoch, 0, record("one "), record("two ")))
			require.NoError(t, writeState(ctx, s, "a", epoch, 4))
			require.NoError(t, writeState(ctx, s, "a", epoch, 8))
			require.NoError(t, s.Append(ctx, "a", epoch, 8, record("three")))
			kept, err := s.ObjectNames(ctx)
			require.NoError(t, err)
			rows, err := s.Objects(ctx)
			require.NoError(t, err)

			away()
			_, err = readState(ctx, s, "a", 8)
			for what, err := range map[string]error{
				"reading a state":  err,
				"writing a state":  writeState(ctx, s, "a", epoch, 13),
				"trimming the log": s.Trim(ctx, "a", epoch, 8),
				"dropping a state": s.DropSnapshot(ctx, "a", epoch, 4),
				"deleting":         s.Delete(ctx, "a", epoch),
			} {
				require.ErrorIs(t, err, storage.ErrUnavailable, what)
				require.NotErrorIs(t, err, storage.ErrCorrupt, what)
				require.ErrorContains(t, err, postgres.MarkerName, what)
			}
			require.NoError(t, s.Exec(ctx,
				"insert into objects (object, refs) values ('a/left', 0)"))
			require.ErrorIs(t, s.Sweep(ctx, 0), storage.ErrUnavailable)
			_, err = postgres.Open(ctx, p.options())
			require.ErrorIs(t, err, storage.ErrUnavailable, "opening")
			if dir, isFolder := strings.CutPrefix(objects, "file://"); isFolder &&
				name == "a folder is missing" {
				require.NoDirExists(t, dir, "nobody makes it anew")
			}
			require.NoError(t, s.Append(ctx, "a", epoch, 13, record(" four")),
				"the log is the database's")
			require.Equal(t, "one two three four", textOf(t, s, "a"))

			back()
			state, err := readState(ctx, s, "a", 8)
			require.NoError(t, err)
			require.Equal(t, "state of a", state)
			names, err := s.ObjectNames(ctx)
			require.NoError(t, err)
			require.Equal(t, kept, names)
			require.NoError(t, s.Sweep(ctx, 0))
			left, err := s.Objects(ctx)
			require.NoError(t, err)
			require.Equal(t, rows, left)
			require.NoError(t, writeState(ctx, s, "a", epoch, 18))
			require.NoError(t, s.Trim(ctx, "a", epoch, 8))
			require.Contains(t, reports.all(), "does not belong to database")
			require.Contains(t, reports.all(), "is available again")
			p.started(t, p.options())
		})
	}
}

func TestLogIsNotTrimmedWithoutItsState(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), bucket(t))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one ")))
	require.NoError(t, writeState(t.Context(), s, "a", epoch, 4))
	names, err := s.ObjectNames(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Overwrite(t.Context(), names[0], []byte("short")))
	require.ErrorIs(t, s.Trim(t.Context(), "a", epoch, 4), storage.ErrUnavailable)
	require.NoError(t, s.Overwrite(t.Context(), names[0], nil))
	require.ErrorIs(t, s.Trim(t.Context(), "a", epoch, 4), storage.ErrUnavailable)
	require.Equal(t, "one ", textOf(t, s, "a"))
	_, err = readState(t.Context(), s, "a", 4)
	require.ErrorIs(t, err, storage.ErrCorrupt, "the marker is there, and the object is not")
}

// The folder of the object store is unmounted while a state is written, so the state ends up in
// another folder. Then the write must fail, and the session must have no snapshot.
func TestMisplacedStateIsNoSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	p := newPlace(t, pgtest.Shared(t), "file://"+filepath.ToSlash(dir))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), "a", epoch, 0, record("one ")))
	err = s.WriteSnapshot(t.Context(), "a", epoch, 4, func(w io.Writer) error {
		require.NoError(t, os.Rename(dir, dir+".kept"))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
		_, err := io.WriteString(w, strings.Repeat("state", 1<<16))
		return err
	})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	kept, err := s.Snapshots(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, kept)
}

func TestLostMarkerIsWrittenWhenAskedFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	p := newPlace(t, pgtest.Shared(t), "file://"+filepath.ToSlash(dir))
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.NoError(t, writeState(t.Context(), s, "a", epoch, 0))
	marker := filepath.Join(dir, postgres.MarkerName)
	id, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.NoError(t, os.Remove(marker))
	_, err = postgres.Open(t.Context(), p.options())
	require.ErrorContains(t, err, "with the id "+strings.TrimSpace(string(id)))
	require.ErrorContains(t, err, "lmserve migrate --store URL --objects URL")

	adopt := p.options()
	adopt.Adopt = true
	adopt.Objects = folder(t)
	require.NoError(t, os.MkdirAll(strings.TrimPrefix(adopt.Objects, "file://"), 0o700))
	_, err = postgres.Open(t.Context(), adopt)
	require.ErrorContains(t, err, "none of the 1 newest states", "of another store")
	adopt.Objects = p.objects
	p.started(t, adopt)
	again, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.Equal(t, id, again)
	p.started(t, p.options())
}

// A database of an older version has objects, but its object store has no marker. Then Open must
// not treat the database as new: only Adopt may write the marker.
func TestUnmarkedStoreWithObjectsIsNoFirstUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	p := newPlace(t, pgtest.Shared(t), "file://"+filepath.ToSlash(dir))
	s := p.started(t, p.options())
	require.NoError(t, s.LeaveHalf(t.Context()))
	require.NoError(t, s.Exec(t.Context(), "update object_store set marked = false"))
	require.NoError(t, os.Remove(filepath.Join(dir, postgres.MarkerName)))
	_, err := postgres.Open(t.Context(), p.options())
	require.ErrorIs(t, err, storage.ErrUnavailable)
	o := p.options()
	o.Adopt = true
	p.started(t, o)
	p.started(t, p.options())
}

// The object store cannot be reached when a server starts. The server must start nevertheless, and
// use the object store as soon as it can be reached.
func TestStoreIsOpenedWhileItsObjectsAreUnreachable(t *testing.T) {
	var refuses atomic.Bool
	memory := s3mem.New()
	require.NoError(t, memory.CreateBucket("states"))
	s3 := gofakes3.New(memory).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden) // an error that clients do not retry
			return
		}
		s3.ServeHTTP(w, r)
	}))
	defer srv.Close()
	query := url.Values{"endpoint": {srv.URL}, "use_path_style": {"true"}}
	p := newPlace(t, pgtest.Shared(t), "s3://states?"+query.Encode())
	require.NoError(t, p.started(t, p.options()).Exec(t.Context(), "select 1"))
	refuses.Store(true)
	s := p.started(t, p.options())
	epoch, err := s.Create(t.Context(), "a", nil, 0)
	require.NoError(t, err)
	require.ErrorIs(t, writeState(t.Context(), s, "a", epoch, 0), storage.ErrUnavailable)
	refuses.Store(false)
	require.NoError(t, writeState(t.Context(), s, "a", epoch, 0))
}

// Several servers start at once with a new database, but with different object stores. Exactly one
// object store must get the marker of the database.
func TestNewDatabaseKeepsFirstOfTwoStores(t *testing.T) {
	p := newPlace(t, pgtest.Shared(t), folder(t))
	errs := make(chan error)
	for range 4 {
		o := p.options()
		o.Objects = folder(t)
		go func() {
			s, err := postgres.Open(context.Background(), o)
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	refused := 0
	for range 4 {
		select {
		case err := <-errs:
			if err != nil {
				require.ErrorIs(t, err, storage.ErrUnavailable)
				refused++
			}
		case <-time.After(time.Minute):
			t.Fatal("no answer")
		}
	}
	require.Equal(t, 3, refused)
}

type handler func() *gofakes3.GoFakeS3

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h().Server().ServeHTTP(w, r) }

type reports struct {
	mu   sync.Mutex
	told []string
}

func (r *reports) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, err.Error())
}

func (r *reports) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.told, "\n")
}
