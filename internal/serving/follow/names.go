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

// Log names a log: a file, or files whose names differ in a date alone, where each is the successor
// of the one of the date before.
type Log struct {
	Path  string // of the file; of files with dates, with an asterisk in place of each date
	Dated bool
}

var (
	// rotated are the endings that log rotation gives to names: a number or a date.
	rotated = regexp.MustCompile(`^[-._][0-9][0-9TZ:._-]*$`)
	// dates are the dates of names, year first, with or without a time.
	dates = regexp.MustCompile(`(?:19|20)\d\d[-._]?[01]\d` +
		`(?:[-._]?[0-3]\d(?:[-._T]?[0-2]\d(?:[-._:]?[0-5]\d)*)?)?`)
	// inserted are what rotation puts in front of an extension: a number, or a date and a number.
	inserted = regexp.MustCompile(`^(?:[-._]\*(?:[-._]\d{1,4})?|\.\d{1,4})$`)
	// prefixed is what rotation puts in front of a name: a date.
	prefixed = regexp.MustCompile(`^\*[-._]$`)
)

// undated is a name with an asterisk in place of each date.
func undated(name string) string { return dates.ReplaceAllLiteralString(name, "*") }

// wasNamed reports whether a file of some name may have been one of the name base before it was
// rotated.
func wasNamed(base, name string) bool {
	name, packed := unpackedName(name)
	if name == base {
		return packed
	}
	if key := undated(base); strings.Contains(key, "*") && undated(name) == key {
		return true // today's file has a date itself
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

// current is the path of the log's file; "" if there is none with a date.
func (l Log) current() string {
	if !l.Dated {
		return l.Path
	}
	dir, base := filepath.Split(l.Path)
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // a folder that cannot be read has none
	for _, e := range slices.Backward(entries) {
		if _, packed := unpackedName(e.Name()); !packed && undated(e.Name()) == base && !e.IsDir() {
			return filepath.Join(dir, e.Name()) // entries are sorted: it has the last date
		}
	}
	return ""
}

// sibling is a file that may have been the log's before.
type sibling struct {
	path     string
	modified time.Time
	id       string
	named    bool // as rotation names files
}

// siblings are the files beside that of a log, and one folder deeper, the one that was written to
// longest ago first. A link's are also those beside the file it points to.
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
	entries, _ := os.ReadDir(dir) // a folder that cannot be read has none
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
			named = plain == now // it is being compressed, and is still there as it was
		}
	}
	return append(all, sibling{path, info.ModTime(), idOf(info), named})
}

// linked is the file that a symbolic link points to, whether it is there or not; "" if the path is
// no link.
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

// Match returns the logs that a pattern of paths names, as filepath.Match understands it: without
// folders, files that were compressed, and those that have a name given by rotation.
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

// rotatedMatch reports whether a path is one that the pattern matches also without an ending that
// rotation gives: where that is the name of a file, or has an extension, as access.log has.
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
