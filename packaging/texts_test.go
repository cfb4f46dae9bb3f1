package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts.sha256 must list every document of the archive. All its other entries must be logs that the
// script texts.sh fetches.
func TestTextsOfTablesAreListed(t *testing.T) {
	sums, err := os.ReadFile("texts/texts.sha256")
	require.NoError(t, err)
	script, err := os.ReadFile("texts/texts.sh")
	require.NoError(t, err)
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, found, line)
		listed[name] = sum
	}
	file, err := os.Open("texts/texts.tar.gz")
	require.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeDir {
			continue
		}
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.Equal(t, listed[h.Name], fmt.Sprintf("%x", sha256.Sum256(text)), h.Name)
		delete(listed, h.Name)
	}
	for name := range listed {
		require.Contains(t, string(script), " "+name+" ", "fetched")
	}
}
