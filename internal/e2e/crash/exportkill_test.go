//go:build unix

package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
)

// If 'sessions export --out FILE' is killed at any moment, FILE is complete or missing.
func TestKilledExportLeavesNoTornFile(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir, outs := t.TempDir(), t.TempDir()
	text := program.Log(t, 3000)
	path := program.Built(t, program.AsTested(t)...)
	server := program.Serve(t, path, "--model", "swift", "--data-dir", dir)
	res, err := http.Post(server.URL+"/v1/sessions", "application/json",
		strings.NewReader(`{"seed":3}`))
	require.NoError(t, err)
	var created struct{ ID string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&created))
	require.NoError(t, res.Body.Close())
	res, err = http.Post(server.URL+"/v1/sessions/"+created.ID+"/score", "text/plain",
		strings.NewReader(text))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(t, res.Body.Close())
	id := created.ID
	server.Stop(t)
	export := func(out string, killed func() bool) {
		child := program.Command(path, "sessions", "--data-dir", dir, "export", "--model", "swift",
			id,
			"--out", out)
		require.NoError(t, child.Start())
		for !killed() {
			time.Sleep(50 * time.Microsecond)
		}
		_ = child.Process.Kill() // the process may have ended already
		_ = child.Wait()
	}
	before := 0
	for n := range 12 {
		out := filepath.Join(outs, fmt.Sprintf("%02d.session", n))
		deadline := time.Now().Add(time.Minute)
		// The export is killed when its file appears or has its first bytes, or a little later.
		export(out, func() bool {
			files, err := filepath.Glob(filepath.Join(outs, "*"+filepath.Base(out)+"*"))
			require.NoError(t, err)
			for _, file := range files {
				if info, err := os.Stat(file); err == nil && (n%4 == 0 || info.Size() > 0) {
					time.Sleep(time.Duration(n) * 200 * time.Microsecond)
					return true
				}
			}
			return time.Now().After(deadline)
		})
		b, err := os.ReadFile(out)
		if os.IsNotExist(err) {
			before++
			continue
		}
		require.NoError(t, err)
		_, err = program.ReadExport(b)
		require.NoError(t, err, "kill %d", n)
	}
	require.NotZero(t, before, "some kills came before the end")
}
