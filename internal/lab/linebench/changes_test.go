package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInjectedChangesStartWhereTheySay(t *testing.T) {
	var log []string
	for i := range 3000 {
		log = append(log, fmt.Sprintf("2026-11-20 12:%02d:%02d user=u%d status=%d took=%d done=yes",
			i/60%60, i%60, i*7%13, 200+i%4, 20+i*31%50))
	}
	kinds := map[string]bool{}
	for _, c := range injectChanges(log) {
		kinds[c.kind] = true
		require.Less(t, c.from, c.to, c.kind)
		if !strings.HasPrefix(c.kind, "drift") && c.kind != "silence" {
			require.Equal(t, log[:c.from], c.log[:c.from], "%s, %s", c.kind, c.strength)
		}
		require.NotEqual(t, log, c.log, "%s, %s", c.kind, c.strength)
	}
	for _, kind := range []string{
		"drift of a share", "drift of a number", "number becomes empty", "value becomes empty",
		"new field", "field goes missing", "new format", "silence", "surge of a value",
	} {
		require.True(t, kinds[kind], kind)
	}
}
