package pgstore

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

// folder is a bucket whose objects are files.
type folder string

// openFolder opens the folder of a URL's path, and makes the folder if there is none.
func openFolder(path string) (folder, error) {
	if runtime.GOOS == "windows" {
		path = path[1:] // of /C:/folder
	}
	path = filepath.FromSlash(path)
	return folder(path), os.MkdirAll(path, 0o700)
}

func (f folder) path(name string) string {
	return filepath.Join(string(f), filepath.FromSlash(name))
}

func (f folder) write(_ context.Context, name string, fill func(io.Writer) error) error {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := atomicfile.Create(path, atomicfile.Options{Perm: 0o600, Exclusive: true})
	if err != nil {
		return err
	}
	defer func() { _ = file.Discard() }()
	if err := fill(file); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	return atomicfile.SyncFolder(string(f)) // which may have the object's folder only now
}

func (f folder) read(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.path(name))
}

func (f folder) remove(_ context.Context, name string) error { return os.Remove(f.path(name)) }

func (f folder) close() error { return nil }
