package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// fileSystem is the part of the operating system that the store uses. Tests replace it to make
// calls fail.
type fileSystem interface {
	OpenFile(name string, flag int, perm fs.FileMode) (file, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Mkdir(name string, perm fs.FileMode) error
	Link(from, to string) error
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the folder's new and removed names durable.
	SyncDir(name string) error
	// Space returns the free space and the size of a folder's file system, in bytes. Both are 0 if
	// unknown.
	Space(dir string) (left, all int64, err error)
}

type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// osFiles is the fileSystem of the operating system. If no file descriptor is free, a call retries
// for up to descriptorWait. Then it returns storage.ErrUnavailable.
type osFiles struct{}

const (
	descriptorWait  = 5 * time.Second
	descriptorRetry = 20 * time.Millisecond
)

func patiently(call func() error) error {
	for begun := time.Now(); ; time.Sleep(descriptorRetry) {
		err := call()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
			return err
		}
		if time.Since(begun) >= descriptorWait {
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
		}
	}
}

func (osFiles) OpenFile(name string, flag int, perm fs.FileMode) (f file, err error) {
	err = patiently(func() error {
		opened, err := os.OpenFile(name, flag, perm)
		if err == nil { // a nil *os.File assigned to the interface f would make f non-nil
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

func (osFiles) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }
func (osFiles) Link(from, to string) error                { return os.Link(from, to) }
func (osFiles) Rename(from, to string) error              { return os.Rename(from, to) }
func (osFiles) Remove(name string) error                  { return os.Remove(name) }

func (osFiles) Space(dir string) (left, all int64, err error) { return spaceOf(dir) }

func (f *Folder) open(path string) (file, fs.FileInfo, error) {
	in, err := f.files.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("found file mode %v, expected a regular file", info.Mode())
	}
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	return in, info, nil
}

// read reads the first size bytes of a regular file, or the whole file if size is negative. A
// shorter file is no error.
func (f *Folder) read(path string, size int64) (b []byte, err error) {
	in, info, err := f.open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if size < 0 {
		size = info.Size()
	}
	b = make([]byte, size)
	n, err := io.ReadFull(in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return b[:n], nil
	}
	return b, err
}

// write creates or replaces a file, as a whole and durably. If the file system has hard links, the
// old file keeps a temporary name until it is overwritten with zeros. storage.ErrUnknown says that
// the file is replaced, but a power cut may undo the replacement. Then left is the temporary name
// of the old file. The caller must sync the folder before it overwrites the old file.
func (f *Folder) write(path string, content []byte) (left string, err error) {
	unfinished := temporaryName(path)
	if err := f.fill(unfinished, content); err != nil {
		return "", errors.Join(err, f.shred(unfinished))
	}
	old := temporaryName(path)
	linked := f.files.Link(path, old)
	if err := f.files.Rename(unfinished, path); err != nil {
		return "", errors.Join(err, f.shred(unfinished), f.shred(old))
	}
	err = f.files.SyncDir(filepath.Dir(path))
	if err == nil && linked == nil {
		err = f.shred(old)
	}
	if err != nil {
		return filepath.Base(old), fmt.Errorf("%w: %w", storage.ErrUnknown, err)
	}
	return "", nil
}

// rewrite replaces a file of a session as write does. If the old file could not be overwritten,
// rewrite adds it to the session's leftovers.
func (f *Folder) rewrite(s *session, name string, content []byte) error {
	left, err := f.write(filepath.Join(f.sessionPath(s.id), name), content)
	if left != "" {
		s.leftovers, s.unsynced = append(s.leftovers, left), true
	}
	return err
}

// written reports whether a write that returned err has replaced the file.
func written(err error) bool { return err == nil || errors.Is(err, storage.ErrUnknown) }

func (f *Folder) fill(path string, content []byte) error {
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// links identifies a file by device and inode, and counts its hard links.
type links struct {
	device, inode uint64
	links         uint64
}

// shred overwrites a file with zeros, unless the file has other hard links, and removes the name. A
// missing file is no error. The file is removed even if it cannot be overwritten.
//
// Zeros replace the old bytes on the device only if both file system and device write in place.
// ext4 without data journaling, XFS and NTFS write in place; btrfs, ZFS and APFS do not. A magnetic
// disk writes in place; an SSD does not, because it remaps blocks.
func (f *Folder) shred(path string) error {
	last, err := f.unlinkShared(path)
	if err != nil || !last {
		return err
	}
	out, err := f.files.OpenFile(path, os.O_WRONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = out.Stat(); err == nil && info.Mode().IsRegular() {
			err = zero(out, info.Size())
		}
		err = errors.Join(err, out.Close())
	}
	return errors.Join(err, f.remove(path))
}

// unlinkShared removes the name at path if the file has other hard links, or is not regular. If
// path is the last name of a regular file, unlinkShared keeps it and returns true. The lock
// prevents two calls from removing the last two names at once, which would leave the content on the
// disk.
func (f *Folder) unlinkShared(path string) (last bool, err error) {
	f.unlinking.Lock()
	defer f.unlinking.Unlock()
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case linksOf(path, info).links > 1 || !info.Mode().IsRegular():
		return false, f.remove(path)
	}
	return true, nil
}

func (f *Folder) remove(path string) error {
	if err := f.files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const zeroBlock = 1 << 20

func zero(out file, size int64) error {
	zeros := make([]byte, min(zeroBlock, size))
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := out.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return out.Sync()
}

func (f *Folder) shredTree(dir string) error {
	entries, err := f.files.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = errors.Join(err, f.shredTree(path))
		} else {
			err = errors.Join(err, f.shred(path))
		}
	}
	return errors.Join(err, f.remove(dir))
}

func firstError(steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
