package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsAreWholeLinesThatMakeUpTheText(t *testing.T) {
	for _, text := range []string{
		"", "one line\n", incident, novel, strings.Repeat("x", 3*rowBytes),
		strings.Repeat("x", rowBytes-1) + "\n" + strings.Repeat("y", rowBytes) + "\nend",
	} {
		rows := slices.Collect((&stream{text: text}).rows())
		require.Equal(t, text, strings.Join(rows, ""))
		for _, row := range rows[:max(0, len(rows)-1)] {
			require.GreaterOrEqual(t, len(row), rowBytes)
			require.True(t, strings.HasSuffix(row, "\n"))
		}
	}
}
