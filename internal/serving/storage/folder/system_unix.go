//go:build unix

package folder

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock is the flag with which the opening of a named pipe does not wait for a process at the
// pipe's other end.
const nonblock = syscall.O_NONBLOCK

func linksOf(_ string, info fs.FileInfo) links {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return links{links: 1}
	}
	//nolint:unconvert // The types differ from system to system.
	return links{uint64(s.Dev), uint64(s.Ino), uint64(s.Nlink)}
}

// lockFile tries to lock a file without waiting, and reports whether it got the lock.
func lockFile(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
