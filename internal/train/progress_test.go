package train

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where there is no terminal a line comes early, with the first estimate of the time left, and then now and then.
func TestProgressWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "pretrain", 100, 1100) // resumed at step 100
	start := p.started
	require.False(t, p.due(start.Add(lineFirst-1)))
	now := start.Add(4 * time.Second)
	require.True(t, p.due(now))
	p.show(now, 120, 2, 5000)
	require.Equal(t, "pretrain step 120/1100  loss 2.0000  bpc 2.8854  5000 tokens/s  3m16s left\n", out.String())
	require.False(t, p.due(now.Add(lineInterval-1)))
	require.True(t, p.due(now.Add(lineInterval)))
	p.end(1100)
}

func TestProgressMayBeSilent(t *testing.T) {
	p := newProgress(nil, "pretrain", 0, 10)
	p.note("nothing")
	require.False(t, p.due(time.Now().Add(time.Hour)))
	p.end(10)
}
