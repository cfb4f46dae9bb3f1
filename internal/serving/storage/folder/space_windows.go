package folder

import "golang.org/x/sys/windows"

// spaceOf returns the free space and the size of a folder's file system, in bytes. The free space
// is the number of bytes that this process can still write.
func spaceOf(dir string) (left, all int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var available, total uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, &total, nil); err != nil {
		return 0, 0, err
	}
	return int64(available), int64(total), nil
}
