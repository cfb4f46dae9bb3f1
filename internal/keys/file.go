package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// lockPatience is how long a writer waits for another.
const lockPatience = 5 * time.Second

// ReadFile reads a keys file. Its errors are *FormatError, or those of package os.
func ReadFile(path string) ([]Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, FileBytesMax+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// UpdateFile replaces a keys file by what change makes of its keys, all or nothing; without a file change gets none, and the file and its
// folder are made. Of two writers at once, one waits for the other.
func UpdateFile(path string, change func([]Key) ([]Key, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	lock, err := createLock(path + ".lock")
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	renamed := false // then the lock's name may be another's
	defer func() {
		if !renamed {
			_ = lock.Close()
			err = errors.Join(err, os.Remove(lock.Name()))
		}
	}()
	list, err := ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %w", err)
	}
	if list, err = change(list); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { _, err := lock.Write(Format(list)); return err },
		lock.Sync,
		lock.Close,
		func() error { return os.Rename(lock.Name(), path) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("keys: writing %s: %w", path, err)
		}
	}
	renamed = true
	return syncFolder(filepath.Dir(path)) // the file is the new one, whatever becomes of this
}

// createLock creates a file that must not exist, and waits for another writer to rename his.
func createLock(path string) (*os.File, error) {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s exists: another program is writing the keys; if none is, one was killed at it: remove this file", path)
		}
	}
}

// syncFolder puts a rename in the folder on the disk.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" { // has no such thing
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("keys: flushing %s: %w", dir, err)
	}
	return nil
}
