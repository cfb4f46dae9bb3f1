package follow

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSkippedIsKnownWhileJournalIsRead(t *testing.T) {
	out, journalctl := io.Pipe()
	j := Journal{notes: Notes{Say: func(string) {}}}
	done := make(chan error, 1)
	go func() { done <- j.entries(out, func(Piece) error { return nil }) }()
	for range 100 {
		_, err := io.WriteString(journalctl, `{"__CURSOR":"1","MESSAGE":[97,0,0,0]}`+"\n")
		require.NoError(t, err)
		_ = j.Skipped()
	}
	require.Eventually(t, func() bool { return j.Skipped() == 300 }, time.Minute, time.Millisecond)
	require.NoError(t, journalctl.Close())
	require.NoError(t, <-done)
}
