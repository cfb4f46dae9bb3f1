//go:build unix

package follow

import (
	"fmt"
	"os"
	"syscall"
)

// idOf names a file by its device and inode, which stay when the file gets another name.
func idOf(info os.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
