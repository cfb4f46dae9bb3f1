package documents

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, dir, name, text string) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

func TestListFindsTheTexts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b/two": "22", "a": "1", "b/c/three": "333",
		"b/empty": "", ".git/x": "x", "b/.y": "y"} {
		write(t, dir, name, text)
	}
	files, err := List(dir, 2)
	require.NoError(t, err)
	var found []string
	for _, f := range files {
		text, err := f.Read()
		require.NoError(t, err)
		found = append(found, f.Name+"="+string(text)+" of "+Domain(f.Name))
	}
	require.Equal(t, []string{"a=1 of .", "b/c/three=33 of b", "b/two=22 of b"}, found)
}

func TestContainsFollowsLinks(t *testing.T) {
	root := t.TempDir()
	dir, link := filepath.Join(root, "dir"), filepath.Join(root, "link")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o777))
	require.NoError(t, os.Symlink(dir, link))
	for path, want := range map[string]bool{
		dir: true, link: true, filepath.Join(dir, "a"): true,
		filepath.Join(link, "no", "file"): true, filepath.Join(link, ".git", "x"): false,
		filepath.Join(root, "dir2"): false, root: false, "": false,
	} {
		require.Equal(t, want, Contains(dir, path), path)
		require.Equal(t, want, Contains(link, path), path)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := List(filepath.Join(dir, "nowhere"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, "nowhere"))
	write(t, dir, "a", "text")
	_, err = List(filepath.Join(dir, "a"), 0)
	require.EqualError(t, err, filepath.Join(dir, "a")+
		" is a file, expected a directory of text files")
	_, err = File{Path: filepath.Join(dir, "a"), Size: 9}.Read()
	require.EqualError(t, err, filepath.Join(dir, "a")+": read only 4 of 9 bytes: unexpected EOF")
	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	_, err = File{Path: filepath.Join(dir, "a"), Size: 4}.Read()
	require.ErrorIs(t, err, os.ErrNotExist)
}
