package train

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CanWrite makes sure, before hours of work, that a file can be written: that its folder exists and
// takes new files. The empty path stands for no file.
func CanWrite(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("train: %s is a directory, expected the name of a file to write", path)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".lmserve-*")
	if err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, cause(err))
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return fmt.Errorf("train: %s cannot be written: %w", path, cause(err))
	}
	return nil
}

// cause strips the operation and the path from a file-system error: callers name the path.
func cause(err error) error { return cmp.Or(errors.Unwrap(err), err) }
