//go:build linux || darwin || freebsd || dragonfly

package folder

import "golang.org/x/sys/unix"

// spaceOf returns the free space and the size of a folder's file system, in bytes. The free space
// is the number of bytes that this process can still write.
func spaceOf(dir string) (left, all int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	//nolint:unconvert // The types differ from system to system.
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
