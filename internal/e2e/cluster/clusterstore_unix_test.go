//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/e2e/program"
)

// onFolder restarts the servers with a new database and with the folder dir as object store.
func (c *clusterRig) onFolder(dir string) {
	name := c.database.Database(c.t)
	objects := "file://" + filepath.ToSlash(dir)
	program.Must(c.t, c.program, "migrate", "--store", c.database.URL(name), "--objects", objects)
	for _, n := range c.nodes {
		n.alive.Kill()
		<-n.alive.End
		for flag, value := range map[string]string{"--store": n.proxy.URL(name),
			"--objects": objects} {
			n.args[slices.Index(n.args, flag)+1] = value
		}
		// With this flag, servers write a snapshot after nearly every chunk.
		n.args = append(n.args, "--max-replay", "1ms")
		n.start(c.program)
	}
}

// unmounted replaces the folder dir while do runs, and then restores dir. The replacement is an
// empty folder, or nothing if missing is true. The result lists the files that do has left in the
// replacement.
func unmounted(t *testing.T, dir string, missing bool, do func()) (left []os.DirEntry) {
	require.NoError(t, os.Rename(dir, dir+".kept"))
	if !missing {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	do()
	left, err := os.ReadDir(dir)
	require.Equal(t, missing, err != nil, "the folder was made anew: %v", err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(dir+".kept", dir))
	return left
}

// While clients feed sessions, the folder of the states is unmounted and mounted again, and servers
// are killed. No answer may say that a state was deleted, and no server may write to the mount
// point.
//
// Afterwards every session must have all its text, with the bits that an undisturbed server
// computes.
func TestSharedSessionsSurviveUnmount(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	c := newClusterRig(t)
	dir := filepath.Join(t.TempDir(), "states")
	c.onFolder(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	through, err := client.New(c.nodes[0].url, client.WithPatience(2*time.Minute))
	require.NoError(t, err)
	text := program.Log(t, 12_000)
	var writers []*writer
	var all sync.WaitGroup
	for i := range 4 {
		history := []client.History{client.HistoryTail, client.HistoryFull}[i%2]
		s, _, err := through.EnsureSession(ctx, fmt.Sprint("stream-", i),
			client.SessionRequest{Seed: new(uint64), History: &history})
		require.NoError(t, err)
		w := &writer{id: s.ID, text: text[i*1000:][:8000]}
		writers = append(writers, w)
		all.Go(func() { w.run(ctx, through) })
	}
	has := func(name string) bool {
		states, err := filepath.Glob(filepath.Join(dir, "*", "*.zst"))
		require.NoError(t, err)
		return slices.ContainsFunc(states, func(path string) bool {
			return strings.Contains(path,
				name)
		})
	}
	for _, w := range writers {
		require.Eventually(t, func() bool { return has(w.id) }, time.Minute, 10*time.Millisecond)
	}
	refused := 0
	for round := range 2 {
		// Clients know only the first node, so the victim is another node.
		victim := c.nodes[1+round%2]
		left := unmounted(t, dir, round == 1, func() {
			victim.alive.Kill()
			<-victim.alive.End
			for end := time.Now().Add(2 * leaseOfFaults); time.Now().Before(end); {
				for _, w := range writers {
					answer, err := http.Post(c.nodes[0].url+"/v1/sessions/"+w.id+"/complete",
						"application/json",
						strings.NewReader(`{"max_tokens": 1}`))
					require.NoError(t, err)
					said, err := io.ReadAll(answer.Body)
					require.NoError(t, errors.Join(err, answer.Body.Close()))
					require.NotContains(t, string(said), "deleted")
					if answer.StatusCode == http.StatusServiceUnavailable {
						require.NotEmpty(t, answer.Header.Get("Retry-After"), "%s", said)
						refused++
					}
					_, err = through.GetSession(ctx, w.id)
					require.NoError(t, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			require.False(t, victim.begin(c.program), "a server starts without its states")
		})
		require.Empty(t, left)
		victim.again(c.program)
		time.Sleep(leaseOfFaults)
	}
	all.Wait()
	t.Logf("%d requests were refused", refused)
	one := program.Serve(t, c.program, "--model", c.weights)
	defer one.Stop(t)
	alone, err := client.New(one.URL)
	require.NoError(t, err)
	for _, n := range c.nodes { // Restarted servers must read the states from the folder.
		n.killFor(c.program, 0)
	}
	for _, w := range writers {
		require.NoError(t, w.err)
		_, err := through.ScoreText(ctx, w.id, []byte(" end"), client.ScoreOptions{})
		require.NoError(t, err)
		s, err := through.GetSession(ctx, w.id)
		require.NoError(t, err)
		twin, err := alone.CreateSession(ctx, client.SessionRequest{Seed: new(uint64)})
		require.NoError(t, err)
		_, err = alone.Feed(ctx, twin.ID, strings.NewReader(w.text+" end"), client.FeedOptions{})
		require.NoError(t, err)
		same, err := alone.GetSession(ctx, twin.ID)
		require.NoError(t, err)
		require.Equal(t, same.Totals.Bits, s.Totals.Bits)
	}
}
