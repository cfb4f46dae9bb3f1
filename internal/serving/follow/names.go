package follow

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Log names a log. A log is one file, or a series of files whose names differ only in the date.
type Log struct {
	Path  string // path of the file; if Dated, it has an asterisk in place of each date
	Dated bool
}

var (
	// rotated matches the endings that log rotation gives to names: a number or a date.
	rotated = regexp.MustCompile(`^[-._][0-9][0-9TZ:._-]*$`)
	// dates matches the dates in names, year first, with or without a time.
	dates = regexp.MustCompile(`(?:19|20)\d\d[-._]?[01]\d` +
		`(?:[-._]?[0-3]\d(?:[-._T]?[0-2]\d(?:[-._:]?[0-5]\d)*)?)?`)
	// inserted matches the text that rotation inserts before an extension: a number, or a date,
	// with or without a number. An asterisk replaces the date.
	inserted = regexp.MustCompile(`^(?:[-._]\*(?:[-._]\d{1,4})?|\.\d{1,4})$`)
	// prefixed matches the date that rotation puts before a name. An asterisk replaces the date.
	prefixed = regexp.MustCompile(`^\*[-._]$`)
)

func undated(name string) string { return dates.ReplaceAllLiteralString(name, "*") }

// wasNamed reports whether rotation may have changed the name of a file from base to name.
func wasNamed(base, name string) bool {
	name, packed := unpackedName(name)
	if name == base {
		return packed
	}
	if key := undated(base); strings.Contains(key, "*") && undated(name) == key {
		return true // the names differ only in the date
	}
	if ending, ok := strings.CutPrefix(name, base); ok && rotated.MatchString(ending) {
		return true
	}
	name = undated(name)
	if front, ok := strings.CutSuffix(name, base); ok && prefixed.MatchString(front) {
		return true
	}
	ext := filepath.Ext(base)
	middle, ok := strings.CutPrefix(name, strings.TrimSuffix(base, ext))
	middle, has := strings.CutSuffix(middle, ext)
	return ok && has && ext != "" && inserted.MatchString(middle)
}

// current returns the path of the log's current file, or "" if the log is Dated and no file
// matches.
func (l Log) current() string {
	if !l.Dated {
		return l.Path
	}
	dir, base := filepath.Split(l.Path)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // a folder that cannot be read counts as empty
	for _, e := range slices.Backward(entries) {
		if _, packed := unpackedName(e.Name()); !packed && undated(e.Name()) == base && !e.IsDir() {
			// the entries are sorted, so this file has the latest date
			return filepath.Join(dir, e.Name())
		}
	}
	return ""
}

// sibling is another file in the log's folder, perhaps a rotated file.
type sibling struct {
	path     string
	modified time.Time
	id       string
	named    bool
}

// siblings returns the other files in the log's folder and its subfolders, the oldest first. If the
// log's path is a symbolic link, siblings also returns the files beside the link's target.
func (l Log) siblings() (all []sibling) {
	folders := map[string]bool{}
	now := l.current()
	for _, path := range []string{l.Path, linked(l.Path)} {
		dir, base := filepath.Split(path)
		dir = cmp.Or(dir, ".")
		if path == "" || folders[filepath.Join(dir, base)] {
			continue
		}
		folders[filepath.Join(dir, base)] = true
		for _, e := range entriesOf(dir) {
			if !e.IsDir() {
				all = addSibling(all, dir, base, now, e)
				continue
			}
			below := filepath.Join(dir, e.Name())
			for _, e := range entriesOf(below) {
				all = addSibling(all, below, base, now, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sibling) int { return a.modified.Compare(b.modified) })
	return all
}

func entriesOf(dir string) []os.DirEntry {
	entries, _ := os.ReadDir(dir) // a folder that cannot be read counts as empty
	return entries
}

func addSibling(all []sibling, dir, base, now string, e os.DirEntry) []sibling {
	path := filepath.Join(dir, e.Name())
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() || path == now {
		return all
	}
	named := wasNamed(base, e.Name())
	if plain, packed := unpackedName(path); packed && named {
		if _, err := os.Lstat(plain); err == nil {
			// the file is being compressed, and the uncompressed file still exists
			named = plain == now
		}
	}
	return append(all, sibling{path, info.ModTime(), idOf(info), named})
}

// linked returns the target of a symbolic link, even if the target does not exist. It returns "" if
// the path is not a link.
func linked(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		if abs, err := filepath.Abs(path); err == nil && real != abs {
			return real
		}
		return ""
	}
	to, err := os.Readlink(path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return to
}

// Match returns the logs that match a pattern of filepath.Match. It leaves out folders, compressed
// files, and files with names given by rotation.
func Match(pattern string) (logs []Log, err error) {
	paths, err := filepath.Glob(pattern)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		dir, name := filepath.Split(path)
		if _, packed := unpackedName(name); packed || rotatedMatch(pattern, path) {
			continue
		}
		l := Log{Path: path}
		if key := undated(name); key != name {
			l = Log{dir + key, true}
		}
		if !slices.Contains(logs, l) {
			logs = append(logs, l)
		}
	}
	return logs, err
}

// rotatedMatch reports whether path is a rotated file of a log that the pattern also matches. The
// log's name is the name in path without the ending of rotated files. The log must exist, or its
// name must have an extension, such as access.log.
func rotatedMatch(pattern, path string) bool {
	for at := len(path) - 1; at > 0 && path[at] != filepath.Separator; at-- {
		if !rotated.MatchString(path[at:]) {
			continue
		}
		_, err := os.Lstat(path[:at])
		ok, _ := filepath.Match(pattern, path[:at])
		if ok && (err == nil || filepath.Ext(path[:at]) != "") {
			return true
		}
	}
	return false
}
