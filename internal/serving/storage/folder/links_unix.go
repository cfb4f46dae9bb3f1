//go:build unix

package folder

import (
	"io/fs"
	"syscall"
)

// nonblock keeps the opening of a named pipe from waiting.
const nonblock = syscall.O_NONBLOCK

func linksOf(_ string, info fs.FileInfo) links {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return links{links: 1}
	}
	//nolint:unconvert // The types differ from system to system.
	return links{uint64(s.Dev), uint64(s.Ino), uint64(s.Nlink)}
}
