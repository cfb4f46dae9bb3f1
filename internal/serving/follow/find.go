package follow

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// rotatedPaths returns the paths of a log's rotated files, sorted by last write, the latest first.
func (l Log) rotatedPaths() (paths []string) {
	for _, s := range slices.Backward(l.siblings()) {
		if s.named {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// paths returns where the file that a mark identifies may be now. The order is: files with the
// mark's ID, the log's current file, and the log's rotated files.
func (l Log) paths(m Mark) (paths []string) {
	all := l.siblings()
	for _, s := range all {
		if m.ID != "" && s.id == m.ID {
			paths = append(paths, s.path)
		}
	}
	if now := l.current(); now != "" {
		paths = append(paths, now)
	}
	for _, s := range slices.Backward(all) {
		if s.named {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// find opens the file that a place refers to, or returns nil if no path has this file. If several
// files match, find prefers the file with the mark's ID, else the first file.
func find(paths []string, p Place) *file {
	var found *file
	for _, path := range paths {
		f, err := openFile(path, p.Offset)
		if err != nil {
			continue
		}
		same := p.Mark.ID != "" && idOf(f.info) == p.Mark.ID
		if !p.Mark.fits(f.r, p.Offset) || found != nil && !same {
			f.close()
			continue
		}
		if found != nil {
			found.close()
		}
		if found = f; same {
			break
		}
	}
	if found != nil {
		found.drop = p.Skip
	}
	return found
}

// newer returns the paths of rotated files that were modified after all the given files. It leaves
// out the given files and compressed copies of them.
func (l Log) newer(files []*file) (paths []string) {
	var last time.Time
	for _, f := range files {
		if info, err := f.f.Stat(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	for _, s := range l.siblings() {
		info, err := os.Stat(s.path)
		known := err != nil || slices.ContainsFunc(files, func(f *file) bool {
			return os.SameFile(info, f.info) || f.isIn(s.path)
		})
		if s.named && !known && s.modified.After(last) {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// isIn reports whether the file at a path is a compressed copy of this file.
func (o *file) isIn(path string) bool {
	if _, packed := unpackedName(path); !packed || o.offset == 0 {
		return false
	}
	f, err := openFile(path, 0)
	if err != nil {
		return false
	}
	defer f.close()
	return o.mark().fits(f.r, o.offset)
}

// Read returns the given number of bytes of clean text from a place of a log.
func (o Options) Read(place Place, bytes int64) ([]byte, error) {
	f := find(o.Log.paths(place.Mark), place)
	if f == nil {
		return nil, fmt.Errorf("follow: %s no longer contains the text from byte %d on: the file "+
			"was deleted or truncated", o.Log.Path, place.Offset)
	}
	defer f.close()
	f.cleanAs(&Notes{}, o.Field)
	var text []byte
	for int64(len(text)) < bytes {
		raw, rewritten, err := f.peek(true)
		if err == nil && (rewritten || len(raw) == 0) {
			err = errors.New("the file was rewritten or truncated")
		}
		if err != nil {
			return nil, fmt.Errorf("follow: the text that was read from %s before cannot be read "+
				"again: %w", o.Log.Path, err)
		}
		text = append(text, f.piece(raw).Text...)
	}
	return text[:bytes], nil
}
