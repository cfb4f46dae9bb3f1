package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients generated from api/openapi.yaml compile. Each creates a session, scores a text and
// completes a text, with bit-identical results. `make test-clients` fetches the generators.
func TestGeneratedClientsScoreText(t *testing.T) {
	folder, err := filepath.Abs("testdata/clients")
	require.NoError(t, err)
	bin := filepath.Join(folder, "node_modules", ".bin")
	_, err = os.Stat(bin)
	if err != nil && os.Getenv("LMSERVE_TEST_CLIENTS") == "" {
		t.Skipf("skipped, make test-clients runs it: %v", err)
	}
	require.NoError(t, err)

	// a folder in node_modules, so that imports find the packages
	out := filepath.Join(folder, "node_modules", ".clients")
	require.NoError(t, os.RemoveAll(out))
	require.NoError(t, os.Mkdir(out, 0o755))
	g := newRig(t, Options{})
	run := func(name string, args ...string) string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = out, append(os.Environ(), "LMSERVE_URL="+g.url)
		said, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, said)
		return string(said)
	}
	contract, err := filepath.Abs("../api/openapi.yaml")
	require.NoError(t, err)
	run(filepath.Join(bin, "openapi-typescript"), contract,
		"--default-non-nullable=false", "-o", "types.ts")
	run(filepath.Join(bin, "openapi-ts"), "-i", contract, "-o", "hey",
		"-c", "@hey-api/client-fetch")
	run(filepath.Join(bin, "swagger-typescript-api"), "generate", "-p", contract,
		"-o", "swagger", "-n", "api.ts")
	calls, err := os.ReadFile(filepath.Join(folder, "calls.ts"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(out, "calls.ts"), calls, 0o600))
	run(filepath.Join(bin, "tsc"), "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "esnext", "--moduleResolution", "bundler", "calls.ts")
	run(filepath.Join(bin, "esbuild"), "calls.ts", "--bundle", "--platform=node", "--format=esm",
		"--outfile=calls.mjs")
	require.Equal(t, "openapi-fetch, hey-api and swagger-typescript-api agree\n",
		run("node", "calls.mjs"))
}
