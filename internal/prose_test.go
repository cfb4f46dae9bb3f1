package internal_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proseDebts is a file with the number of violations of each rule in each folder. The numbers may
// only fall.
const proseDebts = "testdata/prose.txt"

const (
	maxColumns  = 100 // columns in a line of Go or Markdown, except tables, code and links
	maxWords    = 25  // words in a sentence
	maxTestName = 50  // letters in the name of a test
)

// mannerisms are phrases that take longer to read than a plain verb or noun.
var mannerisms = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`(is|are|was|were|be|been) told`, `tells? of`, `so many`, `comes? to`, `goes? on`, `stands?`,
	`makes? an end of`, `lets? in`, `of (its|their) own`, `at hand`, `but for`, `once more`,
	`what (it|they|that|there) (has|have|is|are|was|were|says?|does)`, `such as it`,
	`of them that`, `is for whoever`, `wants? to be`,
}, "|") + `)\b`)

// place is a text that breaks a rule.
type place struct{ rule, file, text string }

// TestProseIsPlain checks the hand-written text of the repository against the rules of
// CONTRIBUTING.md ("How we write"), and prints new violations. LMSERVE_UPDATE_PROSE=1 lowers the
// counts in testdata/prose.txt.
func TestProseIsPlain(t *testing.T) {
	allowed, found, places := readDebts(t), map[string]int{}, map[string]string{}
	for _, p := range brokenRules(t) {
		key := p.rule + " " + filepath.ToSlash(filepath.Dir(p.file))
		found[key]++
		places[key] += "\n" + p.file + ": " + p.text
	}
	if os.Getenv("LMSERVE_UPDATE_PROSE") != "" {
		writeDebts(t, allowed, found)
		return
	}
	for key, n := range found {
		assert.LessOrEqual(t, n, allowed[key], "%s:%s", key, places[key])
	}
	for key, n := range allowed {
		assert.Equal(t, n, found[key],
			"%s: fewer than listed; run LMSERVE_UPDATE_PROSE=1 go test ./internal -run Prose", key)
	}
}

// readDebts returns the allowed counts. A key is a rule, a space and a folder.
func readDebts(t *testing.T) map[string]int {
	text, err := os.ReadFile(proseDebts)
	require.NoError(t, err)
	debts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var n int
		var rule, folder string
		_, err := fmt.Sscanf(line, "%d %s %s\n", &n, &rule, &folder)
		require.NoError(t, err, line)
		debts[rule+" "+folder] = n
	}
	return debts
}

// writeDebts lowers each allowed count to the count found. If the list of allowed counts is empty,
// it writes all counts found.
func writeDebts(t *testing.T, allowed, found map[string]int) {
	var out bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(found)) {
		n := found[key]
		if len(allowed) > 0 {
			n = min(n, allowed[key])
		}
		if n > 0 {
			fmt.Fprintf(&out, "%d %s\n", n, key)
		}
	}
	require.NoError(t, os.WriteFile(proseDebts, out.Bytes(), 0o644))
}

func brokenRules(t *testing.T) (broken []place) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != ".." &&
			(strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return fs.SkipDir
		}
		file := strings.TrimPrefix(filepath.ToSlash(path), "../")
		switch filepath.Ext(name) {
		case ".go":
			text, err := os.ReadFile(path)
			if err == nil && !bytes.Contains(text, []byte("\n// Code generated ")) &&
				!bytes.HasPrefix(text, []byte("// Code generated ")) {
				broken = append(broken, goPlaces(t, file, text)...)
			}
			return err
		case ".md":
			text, err := os.ReadFile(path)
			if err == nil && name != "CHANGELOG.md" {
				broken = append(broken, markdownPlaces(file, text)...)
			}
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return broken
}

func goPlaces(t *testing.T, file string, text []byte) (broken []place) {
	for line := range bytes.Lines(text) {
		line = bytes.ReplaceAll(bytes.TrimRight(line, "\n"), []byte("\t"), []byte("    "))
		if utf8.RuneCount(line) > maxColumns && !bytes.Contains(line, []byte("//go:generate")) {
			broken = append(broken, place{"columns", file, string(line)})
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
	require.NoError(t, err)
	for _, group := range f.Comments {
		broken = append(broken, prosePlaces(file, group.Text())...)
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok:
		case strings.HasSuffix(file, "_test.go"):
			if strings.HasPrefix(fn.Name.Name, "Test") && len(fn.Name.Name) > maxTestName {
				broken = append(broken, place{"testname", file, fn.Name.Name})
			}
		case fn.Doc != nil && !strings.HasPrefix(fn.Doc.Text(), fn.Name.Name+" "):
			broken = append(broken, place{"doc", file, fn.Doc.Text()})
		}
	}
	return broken
}

func markdownPlaces(file string, text []byte) (broken []place) {
	var prose strings.Builder
	code := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			code = !code
			prose.WriteString("\n\n")
			continue
		case code, strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"):
			prose.WriteString("\n\n")
			continue
		case strings.HasPrefix(trimmed, "- "):
			prose.WriteString("\n\n")
		}
		if utf8.RuneCountInString(line) > maxColumns && !strings.Contains(line, "](") {
			broken = append(broken, place{"columns", file, line})
		}
		prose.WriteString(line + "\n")
	}
	return append(broken, prosePlaces(file, prose.String())...)
}

var (
	paragraphs  = regexp.MustCompile(`\n\s*\n|\n(?:    |\t)[^\n]*`)
	sentenceEnd = regexp.MustCompile(`[.:;?!][)"*]*\s+|\n\s*[-*] `)
	quoted      = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|\"[^\"]*\"")
)

func prosePlaces(file, text string) (broken []place) {
	for _, paragraph := range paragraphs.Split(text, -1) {
		for _, sentence := range sentenceEnd.Split(quoted.ReplaceAllString(paragraph, "x"), -1) {
			if len(strings.Fields(sentence)) > maxWords {
				broken = append(broken, place{"sentence", file, sentence})
			}
			for _, phrase := range mannerisms.FindAllString(sentence, -1) {
				broken = append(broken, place{"phrase", file, phrase + ": " + sentence})
			}
		}
	}
	return broken
}
