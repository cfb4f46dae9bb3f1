package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/reload"
)

const (
	lockPatience = 5 * time.Second
	lockRetry    = 10 * time.Millisecond
)

// ReadFile reads a keys file. Its errors are *FormatError, reload.ErrNotFile, or those of package
// os.
func ReadFile(path string) ([]Key, error) {
	text, err := reload.ReadFile(path, FileBytesMax)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// UpdateFile atomically replaces the keys in a file with the result of change. If the file is
// missing, change gets an empty list, and the file and its folder are created. The temporary file
// serves as a lock between concurrent writers.
func UpdateFile(path string, change func([]Key) ([]Key, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	file, err := createLocked(path)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	list, err := ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %w", err)
	}
	if list, err = change(list); err != nil {
		return err
	}
	if _, err := file.Write(Format(list)); err != nil {
		return fmt.Errorf("keys: writing %s: %w", path, err)
	}
	if err := file.Commit(); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// createLocked creates the temporary file of a new keys file. It waits for another writer to finish
// first.
func createLocked(path string) (*atomicfile.File, error) {
	lock := path + ".lock"
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockRetry) {
		f, err := atomicfile.Create(path, atomicfile.Options{Perm: 0o600, Temporary: lock})
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s exists: another program is writing the keys, or was "+
				"killed while writing them; in the second case, remove this file", lock)
		}
	}
}
