package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/keys"
)

// The test runs OpenAI's JavaScript client against a server, with and without streaming. `make
// test-openai` installs the client in the version of testdata/openai/package-lock.json. The test is
// skipped if the client is not installed.
func TestOpenAIsOwnClient(t *testing.T) {
	const folder = "testdata/openai"
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "node_modules", "openai"))
	}
	if err != nil && os.Getenv("LMSERVE_TEST_OPENAI") == "" {
		t.Skipf("skipped, make test-openai runs it: %v", err)
	}
	require.NoError(t, err)

	ring := newTestKeys(t, keys.Key{Name: "k"})
	g := newOpenAIRig(t, Options{Keys: ring.Ring})
	g.key = ring.token["k"]
	path := g.create(`{"seed":3}`)
	g.text(path+"/score", numbered(1, 1000))

	run := exec.CommandContext(t.Context(), node, "--test", "client.test.mjs")
	run.Dir = folder
	run.Env = append(
		os.Environ(),
		"BASE_URL="+g.url,
		"KEY="+g.key,
		"SESSION="+strings.TrimPrefix(path, "/v1/sessions/"),
	)
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
}
