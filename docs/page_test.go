// Package docs_test runs the commands on the pages of documentation, and compares their output with
// the output that the pages show.
package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type page struct {
	name  string // path from the root of the repository
	lines []string
}

func readPage(t *testing.T, name string) page {
	text, err := os.ReadFile(filepath.Join("..", name))
	require.NoError(t, err)
	return page{name, strings.Split(string(text), "\n")}
}

func pages(t *testing.T) []page {
	all := []page{readPage(t, "README.md")}
	names, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, name := range names {
		all = append(all, readPage(t, "docs/"+name))
	}
	return all
}

// command is one command on a page. Its output on the page begins at line `from` and ends before
// line `to`.
type command struct {
	text     string
	section  string
	from, to int
	indent   string
}

// commands returns the commands on a page. A command begins with "$ ", in a block that begins with
// ```console.
func (p page) commands() (all []command) {
	section, indent, inside := "", "", false
	for n := 0; n < len(p.lines); n++ {
		line := strings.TrimPrefix(p.lines[n], indent)
		switch fence := strings.TrimLeft(p.lines[n], " "); {
		case inside && line == "```":
			inside, indent = false, ""
		case !inside && fence == "```console":
			inside, indent = true, p.lines[n][:len(p.lines[n])-len(fence)]
		case inside && strings.HasPrefix(line, "$ "):
			text := line[2:]
			for goesOn(text) && n+1 < len(p.lines) {
				n++
				text += "\n" + strings.TrimPrefix(p.lines[n], indent)
			}
			all = append(all, command{text, section, n + 1, n + 1, indent})
		case inside && len(all) > 0:
			all[len(all)-1].to = n + 1
		case !inside && strings.HasPrefix(line, "## "):
			section = line[3:]
		}
	}
	return all
}

// goesOn reports whether a command continues on the next line: after an open quote, in a
// here-document, or after a backslash or a pipe at the end of the line.
func goesOn(text string) bool {
	if _, document, found := strings.Cut(text, "<<'END'"); found {
		return !strings.HasSuffix(document, "\nEND")
	}
	return strings.Count(text, "'")%2 == 1 || strings.HasSuffix(text, "\\") ||
		strings.HasSuffix(text, "|")
}

func (p page) want(c command) (lines []string) {
	for _, line := range p.lines[c.from:c.to] {
		lines = append(lines, strings.TrimPrefix(line, c.indent))
	}
	return lines
}

type exception struct {
	page, begins string
	long         bool
}

func exceptions(t *testing.T) (all []exception) {
	_, table, found := strings.Cut(strings.Join(readPage(t, "docs/README.md").lines, "\n"),
		"\n| page | command |")
	require.True(t, found, "docs/README.md has no table of commands that are not typed in")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		require.Len(t, cells, 5,
			"page, command, who types it in, why, and when it was last run: %s", line)
		_, link, _ := strings.Cut(strings.TrimSuffix(cells[0], ")"), "](")
		begins := strings.Trim(cells[1], "`")
		if begins == "all" {
			begins = ""
		}
		all = append(all, exception{
			page:   filepath.Join("docs", link),
			begins: begins,
			long:   cells[2] == "`make test-long`",
		})
	}
	return all
}

func (e exception) is(p page, c command) bool {
	return p.name == e.page && strings.HasPrefix(c.text, e.begins)
}

// with returns the text of a page with new outputs. Each key of the map is the line number where an
// old output begins.
func (p page) with(outputs map[int][]string) []byte {
	lines := slices.Clone(p.lines)
	for _, c := range slices.Backward(p.commands()) {
		if output, ok := outputs[c.from]; ok {
			for n := range output {
				output[n] = c.indent + output[n]
			}
			lines = slices.Replace(lines, c.from, c.to, output...)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

func TestListedUntypedCommandsExist(t *testing.T) {
	for _, e := range exceptions(t) {
		p := readPage(t, e.page)
		require.True(t, slices.ContainsFunc(p.commands(),
			func(c command) bool { return e.is(p, c) }),
			"docs/README.md lists a command that %s does not have: %s", e.page, e.begins)
	}
}

func TestCommandsAreReadWithTheirOutput(t *testing.T) {
	p := page{"a.md", strings.Split(strings.TrimSpace(`
## One
`+"```console"+`
$ echo 'two
lines' |
    cat
two
lines
$ true
`+"```"+`
1. in a list

   `+"```console"+`
   $ echo a \
       b
   a b
   `+"```"+`
`), "\n")}
	all := p.commands()
	require.Len(t, all, 3)
	require.Equal(t, "echo 'two\nlines' |\n    cat", all[0].text)
	require.Equal(t, []string{"two", "lines"}, p.want(all[0]))
	require.Equal(t, "One", all[0].section)
	require.Empty(t, p.want(all[1]))
	require.Equal(t, "echo a \\\n    b", all[2].text)
	require.Equal(t, []string{"a b"}, p.want(all[2]))
	changed := strings.Split(string(p.with(map[int][]string{all[2].from: {"c", "d"}})), "\n")
	require.Equal(t, []string{"   c", "   d", "   ```"}, changed[len(changed)-3:])
}
