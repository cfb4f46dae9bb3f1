// Package atomicfile replaces files atomically. A reader of the path sees either the complete old
// content or the complete new content. After Commit has returned, a power failure cannot undo the
// change.
//
// The content is written to a temporary file in the folder of the path, and synced to the disk.
// Then the temporary file is renamed to the path. Last, the folder is synced to the disk. (Other
// libraries do not sync the folder, or do not support Windows.)
//
// Errors name the path and the failed step, and wrap the operating system's error. They have no
// package prefix; callers add context.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
)

const defaultPerm fs.FileMode = 0o666

const bufferBytes = 1 << 20

// Options says how to make a file. With the zero value, the new file may replace an existing file,
// and has the permissions of os.Create.
type Options struct {
	// Perm is the mode of the new file before the umask; 0 means 0o666. The mode of a replaced
	// file is lost.
	Perm fs.FileMode
	// Exclusive refuses an existing path with an error that wraps fs.ErrExist. Create checks the
	// path before any work, and Commit checks again.
	Exclusive bool
	// Temporary is the path of the temporary file, which must be in the file's folder; "" means a
	// unique name. A given name also serves as a lock: while the temporary file exists, Create
	// fails with an error that wraps fs.ErrExist.
	Temporary string
}

// File is a file that is not committed yet. Commit or Discard ends the File. Discard after Commit
// does nothing, so callers can defer Discard.
type File struct {
	system    system
	path      string
	temporary string
	exclusive bool
	out       handle // nil after Commit or Discard
}

// Create creates the temporary file that Commit moves to path.
func Create(path string, o Options) (*File, error) { return begin(osSystem(), path, o) }

func begin(s system, path string, o Options) (*File, error) {
	f := &File{system: s, path: path, temporary: o.Temporary, exclusive: o.Exclusive}
	if f.temporary == "" {
		dir, base := filepath.Split(path)
		f.temporary = fmt.Sprintf("%s.%s.%016x.tmp", dir, base, rand.Uint64())
	}
	if f.exclusive {
		if err := s.absent(path); err != nil {
			return nil, f.failed(err)
		}
	}
	perm := o.Perm
	if perm == 0 {
		perm = defaultPerm
	}
	out, err := s.create(f.temporary, perm)
	if err != nil {
		return nil, f.failed(err)
	}
	f.out = out
	return f, nil
}

// Write appends p to the content.
func (f *File) Write(p []byte) (int, error) {
	if f.out == nil {
		return 0, f.failed(fs.ErrClosed)
	}
	return f.out.Write(p)
}

// Commit puts the content at the path. If the rename or an earlier step fails, the path is
// unchanged and the temporary file is removed. If only the folder cannot be synced, the new content
// is in place, but a power failure may undo the change. The new content is also in place if an
// Exclusive file's temporary file cannot be removed.
func (f *File) Commit() error {
	if f.out == nil {
		return f.failed(fs.ErrClosed)
	}
	out := f.out
	for _, step := range []func() error{out.Sync, out.Close, f.name} {
		if err := step(); err != nil {
			return errors.Join(f.failed(err), f.Discard())
		}
	}
	f.out = nil
	if err := f.system.syncFolder(filepath.Dir(f.path)); err != nil {
		return f.failed(err)
	}
	return nil
}

// Discard drops the content and removes the temporary file. An error means that the temporary file
// still exists.
func (f *File) Discard() error {
	if f.out == nil {
		return nil
	}
	_ = f.out.Close() // The content is dropped, so an error of Close does not matter.
	f.out = nil
	return f.system.remove(f.temporary)
}

// name moves the temporary file to the path.
func (f *File) name() error {
	if !f.exclusive {
		return f.system.rename(f.temporary, f.path)
	}
	err := f.system.link(f.temporary, f.path) // Unlike a rename, link fails if the path exists.
	switch {
	case err == nil:
		return f.system.remove(f.temporary)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// File systems such as FAT have no hard links. If two programs then create the same file at the
	// same moment, the later program replaces the file.
	if err := f.system.absent(f.path); err != nil {
		return err
	}
	return f.system.rename(f.temporary, f.path)
}

func (f *File) failed(err error) error { return fmt.Errorf("writing %s: %w", f.path, err) }

// Write writes the buffered output of fill to path. If fill fails, Write returns fill's error, and
// the path is unchanged.
func Write(path string, o Options, fill func(io.Writer) error) error {
	f, err := Create(path, o)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, bufferBytes)
	if err := fill(buffered); err != nil {
		return errors.Join(err, f.Discard())
	}
	if err := buffered.Flush(); err != nil {
		return errors.Join(f.failed(err), f.Discard())
	}
	return f.Commit()
}
