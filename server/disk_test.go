package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

// The keys file sets a key's disk limit. A request that reaches the limit gets a problem with the
// used and the allowed bytes, even within a streamed answer. Other keys are unaffected. A deletion
// frees space at once.
func TestKeysDiskLimitComesFromKeysFile(t *testing.T) {
	const limit = 20_000
	ring := newTestKeys(t, keys.Key{Name: "small", Limits: keys.Limits{Disk: limit}},
		keys.Key{Name: "other"})
	g := newFolderRig(t, t.TempDir(), 1, Options{Keys: ring.Ring}, session.Options{})
	g.key = ring.token["small"]
	path := g.create("{}")

	answer := g.text(path+"/score", numbered(1, limit), "Accept", contract.MediaNDJSON)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	raw, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	events := strings.Split(strings.TrimSpace(string(raw)), "\n")
	var last struct{ Problem api.Problem }
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1]), &last))
	require.Equal(t, api.ProblemKeyDiskLimit, last.Problem.Type)
	require.EqualValues(t, limit, *last.Problem.LimitBytes)

	p := requireProblem(t, g.text(path+"/score", numbered(1, 500)), api.ProblemKeyDiskLimit)
	require.Equal(t, http.StatusInsufficientStorage, p.Status)
	now := g.get(path)
	require.Equal(t, now.DiskBytes, *p.UsedBytes)
	require.Greater(t, now.DiskBytes, int64(limit*9/10))

	g.key = ring.token["other"]
	g.score(g.create("{}"), numbered(2, 500))
	g.key = ring.token["small"]
	require.Equal(t, http.StatusNoContent, g.do("DELETE", path, nil).StatusCode)
	g.score(g.create("{}"), numbered(3, 500))
}
