package suggest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnitOfFollowsTheEndOfTheText(t *testing.T) {
	prose, err := os.ReadFile("../../lab/demo/novel.txt")
	require.NoError(t, err)
	code, err := os.ReadFile("search.go")
	require.NoError(t, err)
	var log strings.Builder
	for i := range 40 {
		fmt.Fprintf(&log, "Nov 27 18:%02d:%02d host sshd[%d]: Invalid user %x\n", i, 59-i, 7*i, i*i)
	}
	require.Equal(t, WordPlus, UnitOf(nil))
	require.Equal(t, WordPlus, UnitOf(prose))
	require.Equal(t, Free, UnitOf(code))
	require.Equal(t, Free, UnitOf([]byte(log.String())))
	require.Equal(t, Free, UnitOf(append(prose, code...)))
	require.Equal(t, WordPlus, UnitOf(append(code, prose...)))
}
