package sessionlog

import (
	"bytes"
	"fmt"
	"os"
)

// bbolt leaves what it has deleted, and every older state of a page, standing in free pages until it needs them for something else.

const eraseBytes = 256 * pageBytes // at a time

// eraseFree overwrites what free pages hold. It is the committer's: no commit may be under way. Failure is fatal.
func (f *Folder) eraseFree() error {
	// Readers that began before the last commit may still be in pages that are free now; those that begin after it are not.
	f.readers.Lock()
	f.readers.Unlock() //nolint:staticcheck // empty on purpose
	l, err := f.inspect()
	if err == nil {
		err = f.erase(l)
	}
	if err != nil {
		return f.fail(err)
	}
	return nil
}

// erase overwrites with zeros every page that is not in use, and syncs the file if there was one to overwrite.
func (f *Folder) erase(l layout) error {
	db, err := f.files.OpenFile(f.path(databaseName), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	defer db.Close()
	buffer, zeros, dirty := make([]byte, eraseBytes), make([]byte, eraseBytes), false
	for begin := int64(0); begin < l.size; {
		end := begin
		for end < l.size && end-begin < eraseBytes && !l.uses(end/pageBytes) {
			end += pageBytes
		}
		if end == begin {
			begin += pageBytes
			continue
		}
		run := buffer[:end-begin]
		if _, err := db.ReadAt(run, begin); err != nil {
			return fmt.Errorf("sessionlog: erasing free pages: %w", err)
		}
		if !bytes.Equal(run, zeros[:len(run)]) {
			if _, err := db.WriteAt(zeros[:len(run)], begin); err != nil {
				return fmt.Errorf("sessionlog: erasing free pages: %w", err)
			}
			dirty = true
		}
		begin = end
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
