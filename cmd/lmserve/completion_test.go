package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program lists possible commands and flag values. The shell itself drops those that do not
// match the typed text.
func TestShellsCompleteValues(t *testing.T) {
	for _, c := range []struct {
		args  []string
		want  []string
		wrong []string
	}{
		{[]string{"score", "--method", ""}, []string{"static", "static+companion", "counts"}, nil},
		{[]string{"score", "--method", "dyn"}, []string{"dynamic-sgd", "dynamic-rms"}, nil},
		{[]string{"score", "--method=st"}, []string{"static"}, nil},
		{[]string{"eval", "--methods", "static,spa"}, []string{"static,sparse-meta"}, nil},
		{[]string{"serve", "--model", ""}, []string{"default", "swift", "counts"}, nil},
		{[]string{"watch", "--model", "sw"}, []string{"swift"}, nil},
		{[]string{"config", ""}, []string{"serve", "sessions"}, []string{"export"}},
		{[]string{"config", "sessions", "ex"}, []string{"export"}, []string{"serve"}},
		{[]string{"help", "sco"}, []string{"score"}, []string{"export"}},
	} {
		out := must(t, "", append([]string{"__complete"}, c.args...)...)
		var offered []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			offered = append(offered, word)
		}
		require.Subset(t, offered, c.want, c.args)
		for _, word := range c.wrong {
			require.NotContains(t, offered, word, c.args)
		}
	}
}
