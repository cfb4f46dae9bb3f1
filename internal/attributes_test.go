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

// written matches the line at the top of generated Go and assembly files.
var written = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Generated files, and no others, are marked as generated in .gitattributes, so that tools leave
// them out when they show a change.
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
			continue // removed, and not committed yet
		}
		require.NoError(t, err)
		head, _, _ := bytes.Cut(text, []byte("\npackage "))
		require.Equal(t, written.Match(head), mark == "set",
			"%s: .gitattributes and the file's first lines say different things", name)
	}
}

// git runs the command at the root of the repository.
func git(input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = "..", strings.NewReader(input)
	out, err := cmd.Output()
	return string(out), err
}
