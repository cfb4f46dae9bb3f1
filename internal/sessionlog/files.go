package sessionlog

import (
	"io"
	"io/fs"
	"os"

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

type osFiles struct{}

func (osFiles) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil file
	}
	return f, nil
}

func (osFiles) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFiles) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFiles) Link(from, to string) error                   { return os.Link(from, to) }
func (osFiles) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFiles) Remove(name string) error                     { return os.Remove(name) }
func (osFiles) SyncDir(name string) error                    { return atomicfile.SyncFolder(name) }
