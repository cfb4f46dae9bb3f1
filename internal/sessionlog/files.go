package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

// fileSystem is what the store asks of the operating system beside what bbolt does with its file.
// Tests make it fail.
type fileSystem interface {
	OpenFile(name string, flag int, perm fs.FileMode) (file, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	Link(from, to string) error
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes what came and went in a folder durable.
	SyncDir(name string) error
	// Space tells how many bytes are left of the file system that a folder is on, and how many it
	// has. 0 of 0 is not known.
	Space(dir string) (left, all int64, err error)
}

type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Sync() error
	Close() error
}

// osFiles is the operating system. When the process, or the machine, has no descriptor free, it
// waits for one: others come and go. Then the error is ErrUnavailable, and nothing has failed.
type osFiles struct{}

const (
	descriptorPatience = 5 * time.Second       // how long a call waits for a descriptor
	descriptorRetry    = 20 * time.Millisecond // how often it looks whether there is one
)

// patiently makes a call that needs a descriptor.
func patiently(call func() error) error {
	for begun := time.Now(); ; time.Sleep(descriptorRetry) {
		err := call()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return err
		}
		if time.Since(begun) >= descriptorPatience {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

func (osFiles) OpenFile(name string, flag int, perm fs.FileMode) (f file, err error) {
	err = patiently(func() error {
		opened, err := os.OpenFile(name, flag, perm)
		if err == nil { // a nil *os.File is no nil file
			f = opened
		}
		return err
	})
	return f, err
}

func (osFiles) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = patiently(func() error { entries, err = os.ReadDir(name); return err })
	return entries, err
}

func (osFiles) SyncDir(name string) error {
	return patiently(func() error { return atomicfile.SyncFolder(name) })
}

func (osFiles) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFiles) Link(from, to string) error                   { return os.Link(from, to) }
func (osFiles) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFiles) Remove(name string) error                     { return os.Remove(name) }

func (osFiles) Space(dir string) (left, all int64, err error) { return spaceOf(dir) }

// absent refuses a path at which there is something, or may be.
func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return fs.ErrExist
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}
