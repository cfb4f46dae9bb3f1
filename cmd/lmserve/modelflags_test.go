package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordsIsFoundWhereReleasesHaveIt(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	folder := filepath.Dir(program)
	share := filepath.Join(filepath.Dir(folder), "share")
	t.Cleanup(func() { _ = os.RemoveAll(share) })

	_, err = findModel("words")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, says := range []string{folder, filepath.Join(share, "lmserve"), wordsFile,
		"make words"} {
		require.ErrorContains(t, err, says)
	}
	_, err = findModel("novels")
	require.NotContains(t, err.Error(), "make words")

	require.NoError(t, os.MkdirAll(filepath.Join(share, "lmserve"), 0o700))
	for _, file := range []string{
		filepath.Join(share, "lmserve", wordsFile), filepath.Join(folder, wordsFile),
	} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		t.Cleanup(func() { _ = os.Remove(file) })
		place, err := findModel("lmserve-words")
		require.NoError(t, err)
		require.Equal(t, file, place.File, "the file beside the program comes first")
	}
}
