package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScoreReportsDivergence(t *testing.T) {
	text := strings.Repeat("The ship sailed to the harbour of the old town.\n", 20)
	for _, more := range [][]string{{"--total-only"}, {"--lines"}, {"--json"}} {
		args := append([]string{
			"score", "--model", "swift", "--method", "dynamic-sgd", "--rate", "1000",
			"--companion=false", "--quiet",
		}, more...)
		stdout, stderr, code := lmserve(text, args...)
		require.Equal(t, exitFailure, code, more)
		require.Regexp(t, `the fast weights diverged \d+ times and .* try a lower learning rate`, stderr)
		require.NotContains(t, stdout, "not to the end")
		require.NotEmpty(t, stdout)
	}
	must(t, text, "score", "--model", "swift", "--quiet")
}
