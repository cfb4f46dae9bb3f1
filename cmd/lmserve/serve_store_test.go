package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func TestServeRefusesTwoPlacesForSessions(t *testing.T) {
	const store, objects = "postgres://lmserve:secret@127.0.0.1:1/lmserve", "file:///nowhere"
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--store", store}, "--store is given without --objects"},
		{[]string{"--objects", objects}, "--objects is given without --store"},
		{[]string{"--store", store, "--objects", objects, "--data-dir", "none"},
			"--data-dir is none and --store is given"},
		{[]string{"--store", store, "--objects", objects, "--disk-budget", "1G"},
			"--disk-budget is 1G and --store is given"},
		{[]string{"--advertise", "http://h:1"}, "--advertise is given without --store"},
		{[]string{"--store", store, "--objects", objects, "--node", "n"},
			"--node is given without --advertise"},
		{[]string{"--store", store, "--objects", objects, "--advertise", "h:1"},
			`--advertise is "h:1", expected a URL such as https://`},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1/x"},
			`--advertise is "http://h:1/x", expected`},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1", "--lease",
			"10ms"}, "--lease is 10ms, expected at least 1s"},
		{[]string{"--store", store, "--objects", objects, "--advertise", "http://h:1",
			"--user-sessions"}, "--user-sessions and --advertise are both given"},
		{[]string{"--store", "mysql://host/name", "--objects", objects},
			"does not begin with postgres://"},
	} {
		_, stderr, code := lmserve("", append([]string{"serve", "--listen", "127.0.0.1:0",
			"--log-format", "none"}, test.args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, test.says)
		require.NotContains(t, stderr, "secret")
	}
	_, stderr, code := lmserve("", "migrate")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--store is not given")
	require.Equal(t, "postgres://db/lmserve",
		plain("postgres://lmserve:secret@db/lmserve?password=secret"))
}

// For sessions and keys, a data folder or keys file on the command line takes precedence over a
// configured database. The database cannot be reached in this test.
func TestDataFolderPrecedesConfiguredStore(t *testing.T) {
	const store, objects = "postgres://lmserve@127.0.0.1:1/lmserve", "file:///nowhere"
	dir := t.TempDir()
	data, err := folder.Open(dir, folder.Options{})
	require.NoError(t, err)
	require.NoError(t, data.Close())
	t.Setenv("LMSERVE_STORE", store)
	t.Setenv("LMSERVE_OBJECTS", objects)
	require.Equal(t, "[]\n", must(t, "", "sessions", "list", "--json", "--data-dir", dir))
	require.Contains(t, must(t, "", "sessions", "check", "--data-dir", dir), "0 findings")
	_, stderr, code := lmserve("", "sessions", "delete", "x", "--data-dir", dir)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "not found")
	must(t, "", "keys", "add", "ann", "--data-dir", dir)
	file := filepath.Join(dir, "keys.json")
	require.Contains(t, must(t, "", "keys", "list", "--keys-file", file), " ann ")

	// Without a folder on the command line, the database remains the place.
	t.Setenv("LMSERVE_DATA_DIR", dir)
	for _, args := range [][]string{{"sessions", "list"}, {"keys", "list"}, {"keys", "list",
		"--store", store}} {
		_, stderr, code := lmserve("", args...)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "--store")
	}
	t.Setenv("LMSERVE_KEYS_FILE", file)
	require.Contains(t, must(t, "", "keys", "list"), " ann ", "as in a server")
	_, stderr, code = lmserve("", "keys", "list", "--store", store)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "--store")

	for _, args := range [][]string{{"sessions", "list"}, {"sessions", "delete", "x"},
		{"keys", "list"}} {
		_, stderr, code := lmserve("", append(args, "--data-dir", dir, "--store", store)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, "--store and --data-dir are both given, expected one of them")
	}
}

// A server with a configured database keeps its copy of the keys in the data folder.
func TestServeUsesStoreBesideDataFolder(t *testing.T) {
	t.Setenv("LMSERVE_STORE", "postgres://lmserve@127.0.0.1:1/lmserve")
	t.Setenv("LMSERVE_OBJECTS", "file:///nowhere")
	for says, args := range map[string][]string{
		"--disk-budget is 1G and --store is given": {"--disk-budget", "1G"},
		`--advertise is "h:1", expected a URL`:     {"--advertise", "h:1"},
	} {
		_, stderr, code := lmserve("", append([]string{"serve", "--data-dir", t.TempDir(),
			"--log-format", "none"}, args...)...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, says)
	}
}
