package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// bbolt leaves what it has deleted, and every older state of a page, standing in free pages until
// it needs them for something else.

// eraseFree overwrites what free pages hold. It is the committer's: no commit may be under way.
// Failure is fatal, but for a full disk, which a file system that never writes in place may have, and
// for the want of a descriptor.
func (f *Folder) eraseFree() (l layout, err error) {
	// Readers that began before the last commit may still be in pages that are free now; those
	// that begin after it are not.
	f.readers.Lock()
	//lint:ignore SA2001 The lock is only waited for: nothing has to happen while it is held.
	f.readers.Unlock()
	l, err = f.inspect()
	if err == nil {
		err = f.erase(l)
	}
	if err != nil && !errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrUnavailable) {
		return l, f.fail(err)
	}
	return l, err
}

// erase overwrites with zeros every page that is not in use, and syncs the file if there was one to
// overwrite.
func (f *Folder) erase(l layout) error { return f.eraseIn(f.path(databaseName), l) }

// eraseIn does so in a file.
func (f *Folder) eraseIn(path string, l layout) error {
	db, err := f.files.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	defer db.Close()
	page, zeros, dirty := make([]byte, pageBytes), make([]byte, pageBytes), false
	for at := int64(0); at < l.size; at += pageBytes {
		if l.uses(at / pageBytes) {
			continue
		}
		if _, err := db.ReadAt(page, at); err != nil {
			return fmt.Errorf("sessionlog: erasing free pages: %w", err)
		}
		if bytes.Equal(page, zeros) { // or there is no page yet, and writing it would take space
			continue
		}
		if _, err := db.WriteAt(zeros, at); noSpace(err) {
			return fmt.Errorf("sessionlog: erasing free pages: %w: %w", ErrNoSpace, err)
		} else if err != nil {
			return fmt.Errorf("sessionlog: erasing free pages: %w", err)
		}
		dirty = true
	}
	if !dirty {
		return nil
	}
	if err := db.Sync(); err != nil {
		return fmt.Errorf("sessionlog: erasing free pages: %w", err)
	}
	return nil
}

func (l *layout) uses(page int64) bool { return page < int64(len(l.used)) && l.used[page] }
