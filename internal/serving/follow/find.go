package follow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// rotated are the endings that log rotation gives to names: a number or a date.
var rotated = regexp.MustCompile(`^[-._][0-9][0-9TZ:._-]*$`)

// sibling is a file that may have had the path before.
type sibling struct {
	path     string
	modified time.Time
}

// siblings are the rotated files of a path, the one that was written to longest ago first.
func siblings(path string) (all []sibling) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, _ := os.ReadDir(dir) // a folder that cannot be read has none
	for _, e := range entries {
		ending, ok := strings.CutPrefix(e.Name(), base)
		info, err := e.Info()
		if ok && rotated.MatchString(ending) && err == nil && info.Mode().IsRegular() {
			all = append(all, sibling{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortStableFunc(all, func(a, b sibling) int { return a.modified.Compare(b.modified) })
	return all
}

// rotatedPaths are the rotated files of a path, the one that was written to last first.
func rotatedPaths(path string) (paths []string) {
	for _, s := range slices.Backward(siblings(path)) {
		paths = append(paths, s.path)
	}
	return paths
}

// find looks for the file of the mark among the paths, and opens it at the offset; nil if it is not
// there. Of several files that fit, the one with the mark's ID is taken, then the first.
func find(paths []string, m Mark, offset int64) *file {
	var found *file
	for _, path := range paths {
		f, err := openFile(path, offset)
		if err != nil {
			continue
		}
		same := m.ID != "" && idOf(f.info) == m.ID
		if !m.fits(f.f, offset) || found != nil && !same {
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
	return found
}

// newer are those of the siblings that were written to after all of some files, and are none of them.
func newer(all []sibling, files []*file) (paths []string) {
	var last time.Time
	for _, f := range files {
		if info, err := f.f.Stat(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	for _, s := range all {
		info, err := os.Stat(s.path)
		known := err != nil || slices.ContainsFunc(files, func(f *file) bool {
			return os.SameFile(info, f.info)
		})
		if !known && s.modified.After(last) {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// Begin is the offset from which on a file has at most so many bytes, of whole lines.
func Begin(path string, most int64) (offset int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("follow: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= most {
		return 0, err
	}
	from := info.Size() - most - 1
	line, err := bufio.NewReader(io.NewSectionReader(f, from, most+1)).ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) {
		return from + 1, nil // within a line that is long
	}
	return from + int64(len(line)), err
}

// Read reads so many bytes from a place on: of the file of a path, or of one that was rotated.
func Read(path string, place Place, bytes int64) ([]byte, error) {
	f := find(append([]string{path}, rotatedPaths(path)...), place.Mark, place.Offset+bytes)
	if f == nil {
		return nil, fmt.Errorf("follow: %s has no longer what it had from byte %d up to %d: it was "+
			"rotated and compressed, deleted, or truncated", path, place.Offset, place.Offset+bytes)
	}
	defer f.close()
	text := make([]byte, bytes)
	if _, err := f.f.ReadAt(text, place.Offset); err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return text, nil
}
