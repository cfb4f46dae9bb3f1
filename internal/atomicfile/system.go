package atomicfile

import (
	"io"
	"io/fs"
	"os"
	"runtime"
)

// handle is an open file.
type handle interface {
	io.Writer
	Sync() error
	Close() error
}

// system contains the calls of the operating system that a File needs. Tests replace the calls to
// make them fail.
type system struct {
	create     func(name string, perm fs.FileMode) (handle, error) // the name must be new
	lstat      func(name string) (fs.FileInfo, error)
	link       func(from, to string) error
	rename     func(from, to string) error
	remove     func(name string) error
	syncFolder func(name string) error
}

func osSystem() system {
	return system{
		create: func(name string, perm fs.FileMode) (handle, error) {
			return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		},
		lstat:      os.Lstat,
		link:       os.Link,
		rename:     os.Rename,
		remove:     os.Remove,
		syncFolder: SyncFolder,
	}
}

// SyncFolder writes the changed names in a folder to the disk. On Windows it does nothing: there
// is no such call, and the file system keeps names in a journal.
func SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
