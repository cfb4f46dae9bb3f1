package folder

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const nonblock = 0

func linksOf(path string, _ fs.FileInfo) links {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return links{links: 1}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, 0, share, nil, windows.OPEN_EXISTING,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return links{} // the file was removed meanwhile
	}
	defer windows.CloseHandle(h)
	var d windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &d); err != nil {
		return links{links: 1}
	}
	inode := uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow)
	return links{uint64(d.VolumeSerialNumber), inode, uint64(d.NumberOfLinks)}
}

// lockFile tries to lock a file without waiting, and reports whether it got the lock.
func lockFile(f *os.File, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
