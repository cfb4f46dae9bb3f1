package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	keys := func(args ...string) string {
		return must(t, "", append([]string{"keys", "--data-dir", dir}, args...)...)
	}
	require.Contains(t, keys("list"), "requires no key")
	require.JSONEq(t, "[]", keys("list", "--json"))
	require.NoDirExists(t, dir)

	token, stderr, code := lmserve("", "keys", "add", "alice", "--data-dir", dir)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^lms_[0-9a-f]{16}_[A-Za-z0-9_-]{43}\n$`, token, "the key and nothing else")
	require.Contains(t, stderr, "not shown again")
	require.Contains(t, stderr, "requires a key")
	keys("add", "ops", "--admin", "--expires", "12h", "--sessions", "7", "--requests", "3",
		"--bytes-per-second", "4096",
		"--disk", "800M")
	keys("add", "ci", "--expires", "2999-01-31")
	_, stderr, code = lmserve("", "keys", "add", "alice", "--data-dir", dir)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, `name: found "alice", the name of key `)

	var list []listedKey
	require.NoError(t, json.Unmarshal([]byte(keys("list", "--json")), &list))
	require.Len(t, list, 3)
	require.Equal(t, listedKey{ID: list[1].ID, Name: "ops", Status: "active", Admin: true,
		Created: list[1].Created, Expires: list[1].Expires, Sessions: 7, Requests: 3,
		BytesPerSecond: 4096, Disk: 800 << 20}, list[1])
	require.InDelta(t, 12, time.Until(list[1].Expires).Hours(), 0.01)
	require.Equal(t, "2999-01-31T00:00:00Z", list[2].Expires.Format(time.RFC3339))

	keys("revoke", "alice")
	keys("revoke", list[2].ID)
	require.NoError(t, json.Unmarshal([]byte(keys("list", "--json")), &list))
	require.Equal(t, []string{"revoked", "active", "revoked"}, []string{list[0].Status,
		list[1].Status, list[2].Status})
	table := strings.Split(keys("list"), "\n")
	require.Regexp(t,
		`^id +name +status +admin +created +expires +sessions +requests +bytes/s +disk$`, table[0])
	require.Regexp(t,
		`^[0-9a-f]{16}  alice  revoked  no +\d{4}-\d\d-\d\d  never +default +default +default `+
			`+default$`, table[1])
	require.Regexp(t, `^[0-9a-f]{16}  ops +active +yes +.* 7 +3 +4096 +800M$`, table[2])
	file, err := os.ReadFile(filepath.Join(dir, "keys.json"))
	require.NoError(t, err)
	require.NotContains(t, string(file), strings.TrimSpace(token)[21:])
}
