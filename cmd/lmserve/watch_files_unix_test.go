//go:build unix

package main

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// troubles returns functions that create something other than a regular file at a path. The map's
// keys name the subtests.
func troubles() map[string]func(*testing.T, string) {
	all := map[string]func(*testing.T, string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
		"loop":   func(t *testing.T, path string) { require.NoError(t, os.Symlink(path, path)) },
		"pipe": func(t *testing.T, path string) {
			require.NoError(t,
				syscall.Mkfifo(path, 0o600))
		},
		"socket": func(t *testing.T, path string) {
			// the operating system limits a socket's path to about 100 bytes, so the path is
			// relative
			t.Chdir(t.TempDir())
			l, err := net.Listen("unix", "s")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			require.NoError(t, os.Rename("s", path))
		},
		"unreadable": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, nil,
				0))
		},
	}
	if os.Getuid() == 0 { // root can read every file
		delete(all, "unreadable")
	}
	return all
}
