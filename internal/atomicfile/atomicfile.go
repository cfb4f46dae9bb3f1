// Package atomicfile replaces files whole: whoever reads a path sees the old content or the new,
// never a part of either, and once Commit has returned a power failure does not undo it.
//
// The content goes to a temporary file in the folder of the path, to the disk, and only then gets
// the path's name; last, the folder itself is put on the disk. (The libraries that do the same
// either leave the folder out or leave Windows out.)
//
// Errors name the path and the step that failed, and wrap the operating system's error. They carry
// no package prefix: callers add their own.
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

// defaultPerm is what os.Create gives a file, before the umask.
const defaultPerm fs.FileMode = 0o666

// bufferBytes is the size of the writes that Write makes of what it is given.
const bufferBytes = 1 << 20

// Options says how a file is made; the zero value replaces whatever has the path, with the
// permissions of os.Create.
type Options struct {
	// Perm is the mode of the new file before the umask; 0 means 0o666. The mode of a file that
	// is replaced is not kept.
	Perm fs.FileMode
	// Exclusive refuses a path that exists, with an error that is fs.ErrExist: in Create, so that
	// no work is lost, and again in Commit.
	Exclusive bool
	// Temporary is the path of the temporary file, in the same folder as the file; "" draws a
	// name that nobody has. A given name is also a lock: while the temporary file exists, Create
	// fails with an error that is fs.ErrExist.
	Temporary string
}

// File is a file in the making. Exactly one of Commit and Discard ends it; Discard after Commit
// does nothing, so that it can be deferred.
type File struct {
	system    system
	path      string
	temporary string
	exclusive bool
	out       handle // nil once the File has ended
}

// Create begins a file that will have the path when it is committed.
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

// Commit gives the path the content. After an error the path is what it was and the temporary file
// is gone, but for the steps after the renaming: if the folder cannot be synced, the new content is
// in place, and only a power failure may still undo it; so it is if the temporary file of an
// Exclusive one, whose content has both names for a moment, cannot be removed.
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

// Discard gives the file up and removes the temporary file. Its error says that the temporary file
// is still there.
func (f *File) Discard() error {
	if f.out == nil {
		return nil
	}
	_ = f.out.Close() // whether the content arrived does not matter any more, nor a second Close
	f.out = nil
	return f.system.remove(f.temporary)
}

// name gives the temporary file the path's name.
func (f *File) name() error {
	if !f.exclusive {
		return f.system.rename(f.temporary, f.path)
	}
	err := f.system.link(f.temporary, f.path) // unlike a rename it fails if the path exists
	switch {
	case err == nil:
		return f.system.remove(f.temporary)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// File systems such as FAT have no links: there, of two programs that make the same file at the
	// same moment, the later one wins.
	if err := f.absent(); err != nil {
		return err
	}
	return f.system.rename(f.temporary, f.path)
}

// absent fails unless nothing has the path.
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

// Write makes path hold what fill writes, which is buffered. An error of fill is returned as it
// came, and nothing has changed then.
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
