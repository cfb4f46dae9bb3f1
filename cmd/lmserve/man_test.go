package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestManualPagesPassMandoc(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skipf("not run: %v", err)
	}
	dir := t.TempDir()
	must(t, "", "man", "--date", "2026-11-22", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	args := append([]string{"-T", "lint", "-W", "warning"}, pages...)
	said, err := exec.Command(mandoc, args...).CombinedOutput()
	require.NoError(t, err, string(said))
	require.Empty(t, string(said))
}

// The manual pages are the same on every machine and day.
func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	must(t, "", "man", "--date", "2026-11-22", dir)
	everyCommand(newRoot(), func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		require.NoError(t, err)
		require.Contains(t, string(page), `"2026-11-22"`, name)
		require.NotRegexp(t, `(?m)^\t`, string(page), "flags are tagged paragraphs")
		require.Contains(t, string(page), ".SH SYNOPSIS", name)
		if c.Flags().Lookup("threads") != nil {
			require.Contains(t, string(page), "PROCESSORS", name)
		}
	})
	_, stderr, code := lmserve("", "man", "--date", "today", dir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `--date is "today"`)
}
