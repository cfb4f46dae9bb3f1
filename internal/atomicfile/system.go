package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
)

type handle interface {
	io.Writer
	Sync() error
	Close() error
}

// system contains the system calls that a File needs. Tests replace them with functions that fail.
type system struct {
	create     func(name string, perm fs.FileMode) (handle, error)
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

func (s system) absent(path string) error {
	_, err := s.lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return fs.ErrExist
	}
	return err
}

// Absent returns fs.ErrExist if a path exists, also if the path is a link without target.
func Absent(path string) error { return osSystem().absent(path) }

// SyncFolder writes changed names in a folder to the disk. On Windows, SyncFolder does nothing:
// Windows has no such call, and its file system keeps names in a journal.
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
