package docs

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/server/contract"
)

func page(t *testing.T) string {
	t.Helper()
	raw, err := Page()
	require.NoError(t, err)
	return string(raw)
}

func all(text, pattern string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

func TestPageHasAllOfContract(t *testing.T) {
	doc, err := contract.Document()
	require.NoError(t, err)
	text := page(t)
	ids := all(text, `id="([^"]*)"`)
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			require.Contains(t, ids, op.OperationID)
		}
	}
	for name, ref := range doc.Components.Schemas {
		require.Contains(t, ids, "schema-"+name)
		for property := range ref.Value.Properties {
			require.Contains(t, text, "<code>"+property+"</code>")
		}
	}
	for _, kind := range doc.Components.Schemas["ProblemType"].Value.Enum {
		require.Contains(t, ids, "problem-"+strings.TrimPrefix(kind.(string), problemPrefix))
	}
	plain := html.UnescapeString(text)
	for name, ref := range doc.Components.Examples {
		if strings.HasSuffix(name, ".answer") && !strings.HasPrefix(name, "openai.") {
			require.Contains(t, text, html.EscapeString(ref.Value.Summary), name)
			_, path, _ := strings.Cut(ref.Value.Extensions["x-request"].(string), " ")
			require.Contains(t, plain, path, name)
		}
	}
	for name := range doc.Info.Extensions["x-limits"].(map[string]any) {
		require.Contains(t, text, "<code>"+name+"</code>")
	}
}

func TestEveryLinkLeadsSomewhereHere(t *testing.T) {
	text := page(t)
	ids := all(text, `id="([^"]*)"`)
	seen := map[string]bool{}
	for _, id := range ids {
		require.False(t, seen[id], "two elements have the id %s", id)
		seen[id] = true
	}
	for _, link := range all(text, `href="([^"]*)"`) {
		anchor, isAnchor := strings.CutPrefix(link, "#")
		require.True(t, isAnchor && seen[anchor] || link == "/openapi.yaml", link)
	}
	for _, forbidden := range []string{"<script", "<img", "<link", "src=", "url(", "@import",
		"style=\"", "onclick"} {
		require.NotContains(t, text, forbidden)
	}
}

func TestPolicyAllowsOnlyStyle(t *testing.T) {
	inPage := all(page(t), `(?s)<style>(.*?)</style>`)
	require.Len(t, inPage, 1)
	sum := sha256.Sum256([]byte(inPage[0]))
	require.Contains(t, Policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	require.Contains(t, Policy, "default-src 'none'")
}

func TestCommandsAreOnesThatAShellReads(t *testing.T) {
	s, err := readSource([]byte(`components:
  examples:
    a.request: {value: {prompt: "it's \"so\" & so", n: [1, 2], o: {x: null}}}
    a.answer: {x-request: "POST /v1/a?b=c&d=e", x-headers: {Content-Type: application/json}, value: "event: x\n"}
    b.request: {value: "one\nit's two\n"}
    b.answer: {x-request: PUT /v1/b, value: {}}
    c.answer: {x-request: POST /v1/c, value: {}}
    d.answer: {x-request: GET /v1/d, value: {}}
`))
	require.NoError(t, err)
	for name, want := range map[string]string{
		"a": `curl -sN 'localhost:8080/v1/a?b=c&d=e' \` + "\n" +
			`  -H 'Content-Type: application/json' \` + "\n" +
			`  -d '{"prompt": "it'\''s \"so\" & so", "n": [1, 2], "o": {"x": null}}'`,
		"b": `curl -s -X PUT localhost:8080/v1/b \` + "\n" + `  --data-binary $'one\nit\'s two\n'`,
		"c": `curl -s -X POST localhost:8080/v1/c`,
		"d": `curl -s localhost:8080/v1/d`,
	} {
		var body *example
		if e, ok := s.Components.Examples[name+".request"]; ok {
			body = &e
		}
		require.Equal(t, want, curl(s.Components.Examples[name+".answer"], body))
	}
}
