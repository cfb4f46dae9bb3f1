package internal_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var written = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Exactly the generated files must be marked in .gitattributes, because tools hide marked files
// when they show a change.
func TestGeneratedFilesAreMarked(t *testing.T) {
	listing, err := git("", "ls-files", "*.go", "*.s")
	if err != nil {
		t.Skipf("no checkout: %v", err)
	}
	marks, err := git(listing, "check-attr", "--stdin", "linguist-generated")
	require.NoError(t, err)
	require.Contains(t, marks, ": set\n")
	for line := range strings.Lines(marks) {
		name, mark, ok := strings.Cut(strings.TrimSpace(line), ": linguist-generated: ")
		require.True(t, ok, "%q", line)
		text, err := os.ReadFile("../" + name)
		if os.IsNotExist(err) {
			continue // The file is deleted, but the deletion is not committed yet.
		}
		require.NoError(t, err)
		head, _, _ := bytes.Cut(text, []byte("\npackage "))
		require.Equal(t, written.Match(head), mark == "set",
			"%s: .gitattributes and the file's first lines say different things", name)
	}
}

func git(input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = "..", strings.NewReader(input)
	out, err := cmd.Output()
	return string(out), err
}
