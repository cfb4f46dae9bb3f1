package corpus

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, tree))
	return dir
}

func TestCorpusIsSortedAndKnowsDomains(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"code/b.txt": "bb", "code/a/deep.txt": "deep", "logs/x": "x", "top.txt": "top",
		"logs/empty.txt": "",
		".hidden":        "no", ".git/config": "no",
	})
	c, err := Load(t.Context(), dir, 0)
	require.NoError(t, err)
	require.Equal(t, []Document{
		{Name: "code/a/deep.txt", Domain: "code", Text: []byte("deep")},
		{Name: "code/b.txt", Domain: "code", Text: []byte("bb")},
		{Name: "logs/x", Domain: "logs", Text: []byte("x")},
		{Name: "top.txt", Domain: ".", Text: []byte("top")},
	}, c.Documents)
	require.Equal(t, []string{".", "code", "logs"}, c.Domains())
	require.Equal(t, 10, c.Bytes())

	rest, err := c.Without([]string{"code"})
	require.NoError(t, err)
	require.Equal(t, []string{".", "logs"}, rest.Domains())

	head, err := Load(t.Context(), dir, 2)
	require.NoError(t, err)
	require.Equal(t, "de", string(head.Documents[0].Text))
}

func TestFingerprintSeesNamesAndTexts(t *testing.T) {
	load := func(files map[string]string) string {
		c, err := Load(t.Context(), writeTree(t, files), 0)
		require.NoError(t, err)
		return c.Fingerprint()
	}
	base := load(map[string]string{"a": "one", "b": "two"})
	require.Equal(t, base, load(map[string]string{"b": "two", "a": "one"}))
	require.NotEqual(t, base, load(map[string]string{"a": "one", "c": "two"}))
	require.NotEqual(t, base, load(map[string]string{"a": "one", "b": "twp"}))
	require.NotEqual(t, base, load(map[string]string{"a": "onet", "b": "wo"}))
}

func TestCorpusErrorsNameTheFile(t *testing.T) {
	dir := writeTree(t, map[string]string{"a/x.txt": "x"})
	empty := t.TempDir()
	for name, c := range map[string]struct{ dir, want string }{
		"missing directory": {filepath.Join(dir, "nowhere"), "nowhere: no such file or directory"},
		"a file": {filepath.Join(dir, "a", "x.txt"), "x.txt is a file, expected a " +
			"directory"},
		"no text": {empty, empty + " contains no text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(t.Context(), c.dir, 0)
			require.ErrorIs(t, err, ErrData)
			require.ErrorContains(t, err, c.want)
		})
	}
	c, err := Load(t.Context(), dir, 0)
	require.NoError(t, err)
	_, err = c.Without([]string{"b"})
	require.ErrorContains(t, err, `no domain "b" to hold out, expected one of a`)
	_, err = c.Without([]string{"a"})
	require.ErrorContains(t, err, "every domain is held out")
}

func TestUnreadableFileIsNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	dir := writeTree(t, map[string]string{"a.txt": "x"})
	// A dangling link is unreadable even for root, who may run the tests.
	require.NoError(t, os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "b.txt")))
	_, err := Load(t.Context(), dir, 0)
	require.ErrorIs(t, err, ErrData)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "b.txt")
}
