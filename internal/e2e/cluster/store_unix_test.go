//go:build unix

package cluster

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/serving/storage/postgres/pgtest"
)

// network returns a new database without tables and a folder of objects. The result store is the
// database's URL; flags contains both as command-line flags.
func network(t *testing.T) (store string, flags []string) {
	server := pgtest.New(t)
	store = server.URL(server.Database(t))
	objects := "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "objects"))
	return store, []string{"--store", store, "--objects", objects}
}

func ask(t *testing.T, method, url, media, body string) (answer map[string]any) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", media)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Less(t, res.StatusCode, 300, "%s", text)
	require.NoError(t, json.Unmarshal(text, &answer), "%s", text)
	return answer
}

func TestSharedSessionsOutliveServerAndMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	store, flags := network(t)
	lmserve := program.Built(t, program.AsTested(t, "s3")...)
	keys := []string{"--data-dir", t.TempDir()}
	_, stderr, code := program.Run(t, lmserve, append([]string{"serve", "--listen", "127.0.0.1:0"},
		append(keys, flags...)...)...)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "run 'lmserve migrate --store URL'")
	out, stderr, code := program.Run(t, lmserve, "migrate", "--store", store)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^the tables have version \d+ \(before: 0\)\n$`, out)

	text := program.Log(t, 1000)
	server := program.Serve(t, lmserve, append(keys, flags...)...)
	id, _ := ask(t, http.MethodPut, server.URL+"/v1/sessions/news", "application/json",
		`{"seed":3}`)["id"].(string)
	ask(t, http.MethodPost, server.URL+"/v1/sessions/news/score", "text/plain", text[:600])
	fork, _ := ask(t, http.MethodPost, server.URL+"/v1/sessions/news/fork", "application/json",
		`{}`)["id"].(string)
	_, stderr, code = program.Run(t, lmserve, append([]string{"sessions", "delete", "news"},
		flags...)...)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "in use by another process")
	server.Stop(t)

	// A server with another data folder finds the sessions through the flags of the database and
	// the objects.
	server = program.Serve(t, lmserve, append([]string{"--data-dir", t.TempDir()}, flags...)...)
	rest := ask(t, http.MethodPost, server.URL+"/v1/sessions/news/score", "text/plain", text[600:])
	again := ask(t, http.MethodPost, server.URL+"/v1/sessions/"+fork+"/score", "text/plain",
		text[600:])
	require.Equal(t, rest["bits"], again["bits"], "the fork has the same text")
	require.Equal(t, rest["offset"], again["offset"])
	server.Stop(t)

	folder := t.TempDir()
	server = program.Serve(t, lmserve, "--data-dir", folder)
	ask(t, http.MethodPut, server.URL+"/v1/sessions/news", "application/json", `{"seed":3}`)
	ask(t, http.MethodPost, server.URL+"/v1/sessions/news/score", "text/plain", text[:600])
	require.Equal(t, ask(t, http.MethodPost, server.URL+"/v1/sessions/news/score", "text/plain",
		text[600:])["bits"], rest["bits"],
		"the same bits wherever sessions are kept")
	server.Stop(t)

	sessions := func(args ...string) string {
		return program.Must(t, lmserve, append([]string{"sessions"}, append(args, flags...)...)...)
	}
	require.Contains(t, sessions("list"), id)
	require.Equal(t, "2 sessions, 0 findings\n", sessions("check"))
	require.Contains(t, sessions("replay"), "records, all bit-identical")
	file := filepath.Join(t.TempDir(), "news.session")
	sessions("export", "news", "--out", file)
	imported := strings.TrimSpace(sessions("import", file, "--name", "copy"))
	require.Contains(t, sessions("list"), imported)
	sessions("delete", "copy", fork)
	require.NotContains(t, sessions("list"), fork)
	out, stderr, code = program.Run(t, lmserve, append([]string{"sessions", "move", "--data-dir",
		folder}, flags...)...)
	require.Equal(t, program.Failure, code, stderr)
	require.Contains(t, out, `already has the name "news"`)
	require.Contains(t, out, "0 copied, 0 already in the target, 1 not copied\n")
	sessions("delete", "news")
	require.Equal(t, "1 copied, 0 already in the target, 0 not "+
		"copied\n", sessions("move", "--data-dir",
		folder))
	require.Equal(t, "0 copied, 1 already in the target, 0 not "+
		"copied\n", sessions("move", "--data-dir",
		folder))
	another := filepath.Join(t.TempDir(), "another")
	require.Equal(t, "1 copied, 0 already in the target, 0 not copied\n", sessions("move", "--back",
		"--data-dir", another))
	// shown omits the size, because the log of a copy has fewer frames.
	shown := func(folder string) string {
		all := program.Must(t, lmserve, "sessions", "show", "news", "--data-dir", folder)
		return regexp.MustCompile(`"disk_bytes": \d+`).ReplaceAllString(all, "")
	}
	require.Equal(t, shown(folder), shown(another))
	_, stderr, code = program.Run(t, lmserve, "sessions", "move", "--data-dir", folder)
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr, "--store is not given")
}

// Servers without a keys file use the keys in the database. They must notice changes of these keys.
func TestSharedSessionsHaveKeysInDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	store, flags := network(t)
	lmserve := program.Built(t, program.AsTested(t, "s3")...)
	program.Must(t, lmserve, "migrate", "--store", store)
	keys := func(args ...string) string {
		return strings.TrimSpace(program.Must(t, lmserve, append([]string{"keys", "--store", store},
			args...)...))
	}
	require.Contains(t, keys("list"), "a server that uses it requires no key")
	_, stderr, code := program.Run(t, lmserve, "keys", "revoke", "ann", "--store", store)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, "no keys")

	dir := t.TempDir()
	server := program.Serve(t, lmserve, append([]string{"--data-dir", dir}, flags...)...)
	status := func(key string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/sessions",
			nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	becomes := func(want int, key string) {
		require.Eventually(t, func() bool { return status(key) == want }, time.Minute,
			50*time.Millisecond)
	}
	require.Equal(t, http.StatusOK, status("none"))
	ann := keys("add", "ann")
	becomes(http.StatusUnauthorized, "none")
	require.Equal(t, http.StatusOK, status(ann))
	_, stderr, code = program.Run(t, lmserve, "keys", "add", "ann", "--store", store)
	require.Equal(t, program.Failure, code)
	require.Contains(t, stderr, `found "ann"`)
	bob := keys("add", "bob")
	becomes(http.StatusOK, bob)
	keys("revoke", "ann")
	becomes(http.StatusUnauthorized, ann)
	require.NotContains(t, keys("list"), strings.SplitN(bob, "_", 3)[2], "only hashes are kept")
	server.Stop(t)

	// If the data folder has a keys file, the server uses only the keys in this file.
	own := t.TempDir()
	eve := strings.TrimSpace(program.Must(t, lmserve, "keys", "add", "eve", "--data-dir", own))
	server = program.Serve(t, lmserve, append([]string{"--data-dir", own}, flags...)...)
	require.Equal(t, http.StatusOK, status(eve))
	require.Equal(t, http.StatusUnauthorized, status(bob))
	server.Stop(t)
	_, stderr, code = program.Run(t, lmserve, "serve", "--store", store, "--objects",
		"ftp://bucket", "--data-dir", t.TempDir())
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr, `the objects' URL begins with "ftp://"`)
	_, stderr, code = program.Run(t, lmserve, "keys", "list", "--store", "mysql://x")
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr, "--store: ")
	_, stderr, code = program.Run(t, lmserve, "keys", "list", "--store", store, "--keys-file", "x")
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr, "expected one of them")
}
