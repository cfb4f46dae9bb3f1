// Package internal_test checks rules for the whole module. Packages import only what
// ARCHITECTURE.md allows, and other modules can use the public packages. The arithmetic gives the
// same bits on all machines. Generated files are marked.
package internal_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/lmserve/lmserve/"

// root is the module's root package, as ARCHITECTURE.md names it.
const root = "."

// rooms is the content of the tables of packages in ARCHITECTURE.md.
type rooms struct {
	order    []string
	imports  map[string][]string // imports that each package may use from this module; nil: all
	reserved []reserved
}

// reserved is a package of another module that only the packages in `rooms` may import.
type reserved struct {
	prefix, why string
	rooms       []string
}

func readRooms(t *testing.T) rooms {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	h := rooms{imports: map[string][]string{}}
	for _, row := range tableUnder(t, string(text), "## Our packages") {
		room := names(row[0])
		require.Len(t, room, 1, "the first cell names one room: %s", row)
		require.NotContains(t, h.order, room[0], "a room stands once")
		h.order = append(h.order, room[0])
		if h.imports[room[0]] = names(row[2]); row[2] == "everything" {
			h.imports[room[0]] = nil
		}
	}
	for _, row := range tableUnder(t, string(text), "## Packages from outside") {
		h.reserved = append(h.reserved, reserved{names(row[0])[0], row[2], names(row[1])})
	}
	return h
}

// tableUnder returns the rows of the first table under a heading, three cells each, without the
// header row.
func tableUnder(t *testing.T, text, heading string) (rows [][]string) {
	_, after, found := strings.Cut(text, "\n"+heading)
	require.True(t, found, "ARCHITECTURE.md has no heading %q", heading)
	for line := range strings.Lines(after) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			require.Len(t, cells, 3, line)
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		case len(rows) > 0:
			return rows[2:]
		}
	}
	return rows[2:]
}

func names(cell string) []string {
	all := []string{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestTableOfRoomsRunsDownwards(t *testing.T) {
	h := readRooms(t)
	for at, room := range h.order {
		for _, below := range h.imports[room] {
			require.Contains(t, h.order[at+1:], below, "ARCHITECTURE.md: %s may import %s, which "+
				"does not stand below it", room, below)
		}
	}
}

func TestEveryRoomImportsOnlyWhatStandsBelowIt(t *testing.T) {
	h, found := readRooms(t), importsByPackage(t)
	for room, imports := range found {
		allowed, known := h.imports[room]
		require.True(t, known, "package %s is in no row of ARCHITECTURE.md: add it with what it "+
			"may import", room)
		for _, path := range imports {
			ours, inside := strings.CutPrefix(path+"/", module)
			ours = cmp.Or(strings.TrimSuffix(ours, "/"), root)
			if inside && allowed != nil {
				require.Contains(t, allowed, ours, "%s may not import %s", room, ours)
			}
			for _, r := range h.reserved {
				if path == r.prefix || strings.HasPrefix(path, strings.TrimSuffix(r.prefix, "/")+
					"/") {
					require.Contains(t, r.rooms, room, "%s may not import %s: %s", room, path,
						r.why)
				}
			}
		}
	}
	for _, room := range h.order {
		require.Contains(t, found, room, "ARCHITECTURE.md has a row for %s, which is no package",
			room)
		for _, ours := range h.imports[room] {
			path := strings.TrimSuffix(module+strings.TrimPrefix(ours, root), "/")
			require.Contains(t, found[room], path, "ARCHITECTURE.md lets %s import %s, which it "+
				"does not", room, ours)
		}
	}
}

func TestEveryDirectDependencyHasAReason(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range tableUnder(t, string(text), "## Modules from outside") {
		require.Len(t, names(row[0]), 1, row)
		require.NotEmpty(t, row[1], "%s: what is it for?", row[0])
		require.NotEmpty(t, row[2], "%s: who uses it?", row[0])
		listed = append(listed, names(row[0])[0])
	}
	gomod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	var direct []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v\S+$`).FindAllSubmatch(gomod,
		-1) {
		direct = append(direct, string(m[1]))
	}
	require.ElementsMatch(t, direct, listed)
	require.NotEmpty(t, direct)
}

// Only the command convert reads checkpoints of other programs. No other file imports the package
// checkpoint, so a server cannot call it.
func TestOnlyConvertReadsForeignCheckpoints(t *testing.T) {
	files, err := filepath.Glob("../cmd/lmserve/*.go")
	require.NoError(t, err)
	var readers []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			if spec.Path.Value == strconv.Quote(module+"internal/learning/checkpoint") {
				readers = append(readers, filepath.Base(file))
			}
		}
	}
	require.Equal(t, []string{"convert.go", "convert_try.go"}, readers)
	for room, imports := range importsByPackage(t) {
		if room != "cmd/lmserve" {
			require.NotContains(t, imports, module+"internal/learning/checkpoint", room)
		}
	}
}

// importsByPackage returns the imports of all packages of this module, without their test files.
func importsByPackage(t *testing.T) map[string][]string {
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != ".." && (strings.HasPrefix(name, "_") ||
			strings.HasPrefix(name, ".") || name == "testdata") {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
			return fs.SkipDir // a separate module
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil {
			return err
		}
		room := filepath.ToSlash(dir)
		if found[room] == nil {
			found[room] = []string{}
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(found[room], p) {
				found[room] = append(found[room], p)
			}
		}
		return nil
	})
	require.NoError(t, err)
	return found
}
