//go:build unix

package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func (c *crash) hit(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits[what]++
}

// look opens the data folder of a killed server and compares the state of every session. It also
// checks that deleted text is gone, and restores the clients' backups.
func (c *crash) look() {
	t := c.t
	check := []string{"sessions", "check", "--data-dir", c.dir, "--model", c.weights}
	program.Must(t, c.program, check...)
	store, err := datafolder.Open(c.dir, datafolder.Options{})
	require.NoError(t, err)
	mg, err := session.NewManager(c.model, session.Options{
		Store: store, ReplayMax: time.Hour, Report: func(err error) { t.Error(err) },
	})
	require.NoError(t, err)
	seen := c.listed(mg)
	for _, cl := range c.clients {
		cl.compare(mg, seen)
	}
	require.NoError(t, mg.Drain(t.Context()))
	require.NoError(t, store.Close())
	want := fmt.Sprintf("%d sessions, 0 findings\n", len(seen))
	require.Equal(t, want, program.Must(t, c.program, check...))
	c.erased()
	for _, cl := range c.clients {
		if b := cl.backup; b != nil {
			cl.backup = nil
			c.restored(b)
		}
	}
}

func (c *crash) listed(mg *session.Manager) map[string]bool {
	seen := map[string]bool{}
	for after, more := "", true; more; more = after != "" {
		page, next, err := mg.List(session.Caller{Admin: true}, after, 100)
		require.NoError(c.t, err)
		after = next
		for _, info := range page {
			require.NoError(c.t, info.Err, info.ID)
			known := false
			for _, cl := range c.clients {
				mine, err := cl.found(describedOf(info))
				require.NoError(c.t, err)
				known = known || mine
			}
			require.True(c.t, known, "session %s is of nobody", info.ID)
			seen[info.ID] = true
		}
	}
	return seen
}

func describedOf(info session.Info) described {
	t := totals{int(info.Offset), info.Bits, info.BaselineBits}
	return described{ID: info.ID, Offset: int(info.Offset), Totals: t, Labels: info.Labels}
}

// compare compares the client's sessions, in the folder of a killed server, with the client's
// undisturbed streams. The states must be bit-identical.
func (cl *crashClient) compare(mg *session.Manager, seen map[string]bool) {
	t, who := cl.c.t, session.Caller{Admin: true}
	cl.lost = nil // The method listed has already found every lost session that exists.
	for _, tw := range slices.Clone(cl.sessions) {
		if !seen[tw.id] && tw.deleting {
			cl.forget(tw)
			continue
		}
		info, err := mg.Get(who, tw.id)
		require.NoError(t, err, tw.id)
		d := describedOf(info)
		require.NoError(t, cl.told(tw, d.Offset, d.Totals))
		tw.sent = tw.acked
		var file bytes.Buffer
		require.NoError(t, mg.Export(t.Context(), who, tw.id, 0, &file, nil))
		require.NoError(t, tw.sameState(&file))
		cl.c.compared++
	}
	for _, tw := range cl.deleted {
		_, err := mg.Get(who, tw.id)
		require.ErrorIs(t, err, session.ErrNotFound)
	}
}

func (c *crash) erased() {
	for _, cl := range c.clients {
		var living []*twin
		for _, other := range c.clients {
			living = append(living, other.sessions...)
		}
		gone := secrets(cl.deleted[max(0, len(cl.deleted)-20):], living)
		c.searched += len(gone)
		require.NoError(c.t, nowhere(c.dir, gone))
	}
}

// nowhere returns an error if a file below dir contains a secret. The error names the file.
func nowhere(dir string, secrets [][]byte) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, secret := range secrets {
			if at := bytes.Index(content, secret); at >= 0 {
				return fmt.Errorf("%s has %q, of a deleted session, at byte %d", path, secret, at)
			}
		}
		return err
	})
}

func (c *crash) restored(b *backedUp) {
	t := c.t
	file, dir := filepath.Join(c.folder, "backup.tar"), filepath.Join(c.folder, "restored")
	require.NoError(t, os.WriteFile(file, b.file, 0o600))
	defer os.RemoveAll(dir)
	program.Must(t, c.program, "restore", file, dir)
	found := program.Must(t, c.program, "sessions", "check", "--data-dir", dir, "--model",
		c.weights)
	require.Contains(t, found, " 0 findings\n")
	store, err := datafolder.Open(dir, datafolder.Options{})
	require.NoError(t, err)
	for id, acked := range b.sessions {
		found, err := store.Get(t.Context(), id)
		require.NoError(t, err)
		require.GreaterOrEqual(t, found.End, int64(acked))
	}
	for _, id := range b.deleted {
		_, err := store.Get(t.Context(), id)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
	require.NoError(t, store.Close())
	c.checked++
}
