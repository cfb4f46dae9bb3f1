package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		inside := false
		for n, line := range p.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				inside = !inside
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if target := m[1]; !inside && !strings.Contains(target, "://") {
					file, heading, _ := strings.Cut(target, "#")
					path := p.name
					if file != "" {
						path = filepath.Join(filepath.Dir(p.name), file)
					}
					_, err := os.Stat(filepath.Join("..", path))
					require.NoError(t, err, "%s, line %d: %s", p.name, n+1, target)
					if heading != "" {
						require.Contains(t, headings(t, path), heading, "%s, line %d: %s", p.name,
							n+1, target)
					}
				}
			}
		}
	}
}

// headings returns the link anchors of a page's headings.
func headings(t *testing.T, path string) (all []string) {
	text, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			name := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all = append(all, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return all
}
