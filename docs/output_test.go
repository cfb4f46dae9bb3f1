package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forms lists the parts of an output that differ from run to run, with their replacements. The
// parts are ids, dates, keys, hashes, sizes, and numbers of more than three digits.
var forms = []struct {
	of   *regexp.Regexp
	form string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`), "DATE"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\blms_[0-9a-f]{16}_[\w-]+`), "KEY"},
	{regexp.MustCompile(`\b\d+ bytes\b`), "NUMBER bytes"},
	// Hashes and numbers have the same replacement, because a hash may have only decimal digits.
	{regexp.MustCompile(`\b([0-9a-f]{12,64}|[0-9a-f]{8}|\d{4,})\b`), "NUMBER"},
	{regexp.MustCompile(` +`), " "},
}

func formOf(line string) string {
	for _, f := range forms {
		line = f.of.ReplaceAllString(line, f.form)
	}
	return strings.TrimRight(line, " ")
}

func elided(want []string) bool { return strings.Contains(strings.Join(want, "\n"), "...") }

// sameOutput reports whether an actual output matches the output on a page. On the page, a line of
// three dots matches any number of lines, and three dots within a line match any text.
func sameOutput(want, got []string) bool {
	var pattern, text strings.Builder
	for _, line := range want {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(formOf(line)), `\.\.\.`, ".*") +
			`\n`)
	}
	for _, line := range got {
		text.WriteString(formOf(line) + "\n")
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(text.String())
}

func TestOutputsAreComparedButForWhatVaries(t *testing.T) {
	want := []string{"a ...", "...", `total  1.298  17518 bytes`}
	require.True(t, elided(want))
	require.True(t, sameOutput(want, []string{"a b", "c", "d", "total 1.298 17519 bytes"}))
	require.True(t, sameOutput(want, []string{"a b", "total 1.298 9 bytes"}))
	require.False(t, sameOutput(want, []string{"a b", "total 1.299 17518 bytes"}))
	require.False(t, sameOutput(want, []string{"b", "total 1.298 17518 bytes"}))
	require.False(t, sameOutput(want, []string{"a b", "total 1.298 17518 bytes", "more"}))
	require.True(t, sameOutput([]string{"16326 of 1fb4f67b"}, []string{"10562582 of 13740266"}))
	require.False(t, sameOutput(nil, []string{"anything"}))
}
