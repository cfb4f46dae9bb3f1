package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func TestObjectsInAFolderAreWholeOrAbsent(t *testing.T) {
	ctx := context.Background()
	at := "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "of", "objects"))
	_, err := openObjects(ctx, at, false)
	require.ErrorIs(t, err, storage.ErrUnavailable, "a folder that is not there is not made")
	o, err := openObjects(ctx, at, true)
	require.NoError(t, err)
	o.id = "a database"
	require.NoError(t, o.mark(ctx))
	require.NoError(t, o.mark(ctx), "a marker that is there is good")
	names := func() []string {
		all, err := o.bucket.(folder).names(ctx)
		require.NoError(t, err)
		return slices.DeleteFunc(all, func(name string) bool { return name == markerName })
	}
	hello := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	broken := errors.New("broken")
	_, _, err = o.put(ctx, "id/a", func(w io.Writer) error { return errors.Join(hello(w), broken) })
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, storage.ErrUnavailable, "the object store is not at fault")
	require.Empty(t, names())

	bytes, sum, err := o.put(ctx, "id/a", hello)
	require.NoError(t, err)
	require.Equal(t, []string{"id/a"}, names())
	_, _, err = o.put(ctx, "id/a", hello)
	require.ErrorIs(t, err, storage.ErrUnavailable, "no object is replaced")
	sp, readBytes, readSum, err := o.get(ctx, "id/a")
	require.NoError(t, err)
	sp.Close()
	require.Equal(t, bytes, readBytes)
	require.Equal(t, sum, readSum)

	require.NoError(t, o.remove(ctx, "id/a"))
	require.NoError(t, o.remove(ctx, "id/a"), "an object that is not there is removed")
	_, _, _, err = o.get(ctx, "id/a")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, o.close())
}

func TestMissingClientSaysHowToGetIt(t *testing.T) {
	for scheme, tag := range tags {
		if openers[scheme] != nil {
			continue
		}
		_, err := openObjects(context.Background(), scheme+"://bucket", true)
		require.ErrorIs(t, err, storage.ErrInvalid)
		require.ErrorContains(t, err, "go build -tags "+tag+" ./cmd/lmserve")
	}
	_, err := openObjects(context.Background(), "ftp://bucket", true)
	require.ErrorIs(t, err, storage.ErrInvalid)
	require.ErrorContains(t, err, "expected s3://bucket")
}

func TestRemovalsLetWritesCreateSubfolder(t *testing.T) {
	f := folder(t.TempDir())
	var all errgroup.Group
	for n := range 4 {
		all.Go(func() error {
			for range 200 {
				name := fmt.Sprint("a/", n)
				err := f.write(t.Context(), name, func(io.Writer) error { return nil })
				if err == nil {
					err = f.remove(t.Context(), name)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// silent is an object store that has the marker, but does not answer questions about sizes.
type silent struct{ folder }

func (silent) size(ctx context.Context, _ string) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// A trim and a snapshot hold the lock of their session while they look for an object.
func TestLookForObjectEndsWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &objects{bucket: silent{folder(t.TempDir())}, id: "a database"}
		require.NoError(t, o.mark(context.Background()))
		began := time.Now()
		err := o.holds(context.Background(), "a/1", 1)
		require.ErrorIs(t, err, storage.ErrUnavailable)
		require.LessOrEqual(t, time.Since(began), time.Minute)
	})
}
