package kernel

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLeavingCoreKeepsThreadAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	for range 20 {
		leave(core())
		require.True(t, before.IsSet(core()))
	}
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, before, after)
	leave(1 << 20) // a nonexistent core, so leave does nothing
}
