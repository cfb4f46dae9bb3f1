package postgres

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

// folder is a bucket whose objects are files.
type folder string

// createTries is the largest number of tries to create a file in a subfolder.
const createTries = 100

// openFolder opens the folder at the path of a file URL. If create is true, it creates a missing
// folder.
func openFolder(path string, create bool) (folder, error) {
	if runtime.GOOS == "windows" {
		path = path[1:] // removes the first slash of /C:/folder
	}
	path = filepath.FromSlash(path)
	if create {
		return folder(path), os.MkdirAll(path, 0o700)
	}
	entries, err := os.Open(path)
	if err != nil {
		return folder(path), err
	}
	defer entries.Close()
	_, err = entries.Readdirnames(1)
	if err == io.EOF {
		err = nil
	}
	return folder(path), err
}

func (f folder) path(name string) string {
	return filepath.Join(string(f), filepath.FromSlash(name))
}

func (f folder) write(_ context.Context, name string, fill func(io.Writer) error) error {
	file, err := f.create(f.path(name))
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
	return atomicfile.SyncFolder(string(f)) // makes the name of a new subfolder durable
}

// create creates a file and its subfolder. It tries several times, because remove may remove the
// empty subfolder meanwhile.
func (f folder) create(path string) (file *atomicfile.File, err error) {
	for range createTries {
		// Mkdir does not create the folder f itself: f may be a mount point whose file system is
		// not mounted.
		err = os.Mkdir(filepath.Dir(path), 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		file, err = atomicfile.Create(path, atomicfile.Options{Perm: 0o600, Exclusive: true})
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return file, err
}

func (f folder) read(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.path(name))
}

func (f folder) size(_ context.Context, name string) (int64, error) {
	about, err := os.Stat(f.path(name))
	if err != nil {
		return 0, err
	}
	return about.Size(), nil
}

func (f folder) remove(_ context.Context, name string) error {
	err := os.Remove(f.path(name))
	if dir := filepath.Dir(filepath.FromSlash(name)); dir != "." {
		_ = os.Remove(f.path(dir)) // fails while the subfolder has other objects
	}
	return err
}

func (f folder) close() error { return nil }
