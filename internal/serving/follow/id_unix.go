//go:build unix

package follow

import (
	"fmt"
	"os"
	"syscall"
)

// idOf returns device and inode of a file, which survive renaming.
func idOf(info os.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
