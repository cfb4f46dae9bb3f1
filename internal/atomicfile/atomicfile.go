// Package atomicfile replaces files atomically. A reader of a path sees the old content or the new,
// never a part of either. After Commit has returned, a power failure does not undo it.
//
// The content is written to a temporary file in the folder of the path, and synced to the disk.
// Then the temporary file gets the path's name. Last, the folder is synced to the disk. (Libraries
// for the same purpose do not sync the folder, or do not support Windows.)
//
// Errors name the path and the step that failed, and wrap the operating system's error. They carry
// no package prefix; callers add context.
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

// defaultPerm is the mode that os.Create gives a file, before the umask.
const defaultPerm fs.FileMode = 0o666

// bufferBytes is the size of Write's buffer.
const bufferBytes = 1 << 20

// Options say how to make a file. The zero value replaces an existing file, with the permissions
// of os.Create.
type Options struct {
	// Perm is the mode of the new file before the umask; 0 means 0o666. The mode of a replaced
	// file is lost.
	Perm fs.FileMode
	// Exclusive refuses an existing path, with an error that is fs.ErrExist: in Create, before
	// any work, and again in Commit.
	Exclusive bool
	// Temporary is the path of the temporary file, in the same folder as the file; "" chooses a
	// unique name. A given name is also a lock: while the temporary file exists, Create fails
	// with an error that is fs.ErrExist.
	Temporary string
}

// File is an uncommitted file. Exactly one of Commit and Discard ends it. Discard after Commit
// does nothing, so that it can be deferred.
type File struct {
	system    system
	path      string
	temporary string
	exclusive bool
	out       handle // nil once the File has ended
}

// Create begins a file that Commit will put at path.
func Create(path string, o Options) (*File, error) { return begin(osSystem(), path, o) }

func begin(s system, path string, o Options) (*File, error) {
	f := &File{system: s, path: path, temporary: o.Temporary, exclusive: o.Exclusive}
	if f.temporary == "" {
		dir, base := filepath.Split(path)
		f.temporary = fmt.Sprintf("%s.%s.%016x.tmp", dir, base, rand.Uint64())
	}
	if f.exclusive {
		if err := f.absent(); err != nil {
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

// Write appends to the content.
func (f *File) Write(p []byte) (int, error) {
	if f.out == nil {
		return 0, f.failed(fs.ErrClosed)
	}
	return f.out.Write(p)
}

// Commit puts the content at the path. After an error the path is unchanged and the temporary file
// is gone, except in the steps after the rename. If the folder cannot be synced, the new content is
// in place, and only a power failure may still undo it. The new content is also in place if the
// temporary file of an Exclusive file cannot be removed.
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

// Discard drops the content and removes the temporary file. An error says that the temporary file
// still exists.
func (f *File) Discard() error {
	if f.out == nil {
		return nil
	}
	_ = f.out.Close() // neither lost content nor a second Close matters
	f.out = nil
	return f.system.remove(f.temporary)
}

// name gives the temporary file the path's name.
func (f *File) name() error {
	if !f.exclusive {
		return f.system.rename(f.temporary, f.path)
	}
	err := f.system.link(f.temporary, f.path) // unlike a rename, link fails if the path exists
	switch {
	case err == nil:
		return f.system.remove(f.temporary)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// File systems such as FAT have no links. There, if two programs make the same file at the same
	// moment, the later program replaces the file.
	if err := f.absent(); err != nil {
		return err
	}
	return f.system.rename(f.temporary, f.path)
}

// absent returns an error if the path exists.
func (f *File) absent() error {
	_, err := f.system.lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return fs.ErrExist
	}
	return err
}

func (f *File) failed(err error) error { return fmt.Errorf("writing %s: %w", f.path, err) }

// Write writes the buffered output of fill to path. An error of fill is returned unchanged, and
// the path is then unchanged, too.
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
