package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// getBackup requests a backup. The arguments are names and values of headers, in turn. The caller
// can request the rest of a backup by the header Range.
func (g *rig) getBackup(headers ...string) *http.Response {
	r, err := http.NewRequest("GET", g.url+"/v1/admin/backup", nil)
	require.NoError(g.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.plain.Do(r)
	require.NoError(g.t, err)
	return resp
}

// cutBackup fetches a backup over connections that break after bytesEach bytes.
func (g *rig) cutBackup(bytesEach int64) []byte {
	var whole bytes.Buffer
	resp := g.getBackup()
	require.Equal(g.t, http.StatusOK, resp.StatusCode)
	size, etag := resp.ContentLength, resp.Header.Get("ETag")
	for {
		_, err := io.Copy(&whole, io.LimitReader(resp.Body, bytesEach))
		require.NoError(g.t, err)
		require.NoError(g.t, resp.Body.Close())
		if int64(whole.Len()) == size {
			return whole.Bytes()
		}
		resp = g.getBackup("If-Match", etag, "Range", fmt.Sprintf("bytes=%d-", whole.Len()))
		require.Equal(g.t, http.StatusPartialContent, resp.StatusCode)
		require.Equal(g.t, fmt.Sprintf("bytes %d-%d/%d", whole.Len(), size-1, size),
			resp.Header.Get("Content-Range"))
		require.Equal(g.t, etag, resp.Header.Get("ETag"))
	}
}

// A backup is read over a breaking connection, while clients feed and delete sessions and take
// snapshots. The restored data must be valid, and must contain everything acknowledged before the
// backup. Restored sessions must continue bit for bit like the originals.
func TestBackupUnderLoadContinuesToSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const clients, size, piece = 6, 4000, 150
	g := newRealRig(t, session.Options{Threads: 2, MaxMemoryBytes: 2*stateBytes(t, nil) + 1},
		Options{})
	var paths, texts []string
	for n := range clients {
		paths = append(paths,
			g.create(fmt.Sprintf(`{"seed":%d,"settings":{"chunk":16,"baseline":true}}`, n+1)))
		texts = append(texts, numbered(n, size))
	}
	feed := func(n, from, to int) {
		for at := from; at < to; at += piece {
			status, answer, err := g.post(paths[n]+"/score", texts[n][at:min(at+piece, to)])
			if err != nil || status != http.StatusOK {
				t.Errorf("%d %s %v", status, answer, err)
				return
			}
		}
	}
	var before, wait sync.WaitGroup
	for n := range clients {
		before.Add(1)
		wait.Go(func() {
			feed(n, 0, size/4)
			before.Done()
			feed(n, size/4, size)
		})
	}
	before.Wait()
	gone := g.create("{}")
	status, _, err := g.post(gone+"/score", "text that is deleted while the backup is read")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	first := g.getBackup()
	etag := first.Header.Get("ETag")
	require.NoError(t, first.Body.Close())
	require.Equal(t, http.StatusNoContent, g.do("DELETE", gone, nil).StatusCode)
	resp := g.getBackup("If-Match", etag, "Range", "bytes=0-")
	begun, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	later := g.cutBackup(int64(len(begun)) / 7)
	wait.Wait()

	requireProblem(t, g.getBackup("If-Match", etag, "Range", "bytes=5-"), api.ProblemBackupGone)
	for n, content := range [][]byte{begun, later} {
		dir := filepath.Join(t.TempDir(), "restored")
		damage := func(d *storage.CorruptError) { t.Error(d) }
		require.NoError(t, folder.Restore(t.Context(), bytes.NewReader(content), dir, damage))
		require.NoError(t, folder.Check(t.Context(), dir, damage))
		store, err := folder.Open(dir, folder.Options{})
		require.NoError(t, err)
		m, err := modeltest.Small()
		require.NoError(t, err)
		mg, err := session.NewManager(m, session.Options{Store: store, Threads: 1})
		require.NoError(t, err)
		_, err = mg.Get(session.Caller{}, strings.TrimPrefix(gone, "/v1/sessions/"))
		require.Equal(t, n == 0, err == nil, "the first backup is of a moment before the deletion")
		twin := &realRig{mg: mg}
		for k, path := range paths {
			id := strings.TrimPrefix(path, "/v1/sessions/")
			info, err := mg.Get(session.Caller{}, id)
			require.NoError(t, err)
			require.GreaterOrEqual(t, info.Offset, int64(size/4), "what was acknowledged is in "+
				"the backup")
			rest := strings.NewReader(texts[k][info.Offset:])
			_, err = mg.Score(t.Context(), session.Caller{}, id, rest, session.ScoreOptions{},
				func(session.Chunk) error { return nil })
			require.NoError(t, err)
			have, err := mg.Get(session.Caller{}, id)
			require.NoError(t, err)
			want, err := g.mg.Get(session.Caller{}, id)
			require.NoError(t, err)
			require.Equal(t, want.Tally, have.Tally)
			require.Equal(t, g.state(t, path), twin.state(t, path))
		}
		require.NoError(t, mg.Drain(context.Background()))
		require.NoError(t, store.Close())
	}
}

func TestBackupHasOneReaderAtATime(t *testing.T) {
	g := newRealRig(t, session.Options{}, Options{})
	status, _, err := g.post(g.create("{}")+"/score", numbered(1, 300))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	held, err := g.mg.Backup(t.Context(), session.Caller{}, "")
	require.NoError(t, err)
	requireProblem(t, g.getBackup(), api.ProblemBackupBusy)
	_, err = g.mg.Backup(t.Context(), session.Caller{Key: "k"}, held.ID)
	require.ErrorIs(t, err, session.ErrAdminOnly)
	again, err := g.mg.Backup(t.Context(), session.Caller{Key: "k", Admin: true}, held.ID)
	require.NoError(t, err)
	require.Equal(t, held.Size, again.Size)
	requireProblem(t, g.getBackup("If-Match", `"`+held.ID+`"`, "Range", fmt.Sprintf("bytes=%d-",
		held.Size)), api.ProblemInvalidParameter)
	requireProblem(t, g.getBackup("If-Match", `"`+held.ID+`"`, "Range", "bytes=1-2"),
		api.ProblemInvalidParameter)
	require.NoError(t, held.Close())
	require.NoError(t, again.Close())
	resp := g.getBackup()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	held, err = g.mg.Backup(t.Context(), session.Caller{}, "")
	require.NoError(t, err)
	g.close()
	_, err = held.Read(make([]byte, 1))
	require.ErrorIs(t, err, storage.ErrClosed)
	require.NoError(t, held.Close())
	_, err = g.mg.Backup(t.Context(), session.Caller{}, "")
	require.ErrorIs(t, err, session.ErrDraining)
}
