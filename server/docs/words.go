package docs

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/yuin/goldmark"

	"github.com/lmserve/lmserve/server/contract"
)

const (
	schemaPrefix  = "#/components/schemas/"
	problemPrefix = "urn:lmserve:problem:"
)

// words renders texts of the contract as HTML, with links to the schemas and problems that the
// texts name.
type words struct{ doc *openapi3.T }

// code matches a name in backticks, as rendered in HTML.
var code = regexp.MustCompile(`<code>([A-Za-z-]+)</code>`)

// text renders a description, written in CommonMark, as HTML with links to the schemas and problems
// that the description names.
func (w words) text(markdown string) template.HTML {
	var b bytes.Buffer
	if err := goldmark.Convert([]byte(markdown), &b); err != nil {
		return template.HTML("<pre>" + html.EscapeString(markdown) + "</pre>")
	}
	return template.HTML(code.ReplaceAllStringFunc(b.String(), func(found string) string {
		name := code.FindStringSubmatch(found)[1]
		switch {
		case w.doc.Components.Schemas[name] != nil:
			return `<a href="#schema-` + name + `">` + found + `</a>`
		case w.isProblem(name):
			return `<a href="#problem-` + name + `">` + found + `</a>`
		}
		return found
	}))
}

// phrase renders a description as HTML. It removes the <p> around a single paragraph.
func (w words) phrase(markdown string) template.HTML {
	text := strings.TrimSpace(string(w.text(markdown)))
	if strings.Count(text, "<p>") == 1 {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "<p>"), "</p>")
	}
	return template.HTML(text)
}

func (w words) isProblem(name string) bool {
	types := w.doc.Components.Schemas["ProblemType"].Value.Enum
	return slices.Contains(types, any(problemPrefix+name))
}

// kind describes the values of a schema, or links to the schema if it has a name.
func (w words) kind(ref *openapi3.SchemaRef) template.HTML {
	if name, ok := strings.CutPrefix(ref.Ref, schemaPrefix); ok {
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`)
	}
	s := ref.Value
	text := w.bare(s)
	if s.Default != nil {
		text += fmt.Sprintf("; default <code>%s</code>", html.EscapeString(fmt.Sprint(s.Default)))
	}
	if s.Nullable {
		text += ", or null"
	}
	return template.HTML(text)
}

// bare describes the values of an unnamed schema.
func (w words) bare(s *openapi3.Schema) string {
	switch {
	case len(s.OneOf) > 0:
		return w.join(s.OneOf, " or ")
	case len(s.Enum) > 0:
		return values(s.Enum)
	case s.Type.Is("array"):
		return "a list" + between(s.MinItems, s.MaxItems) + ", each " + string(w.kind(s.Items))
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		return "an object, each field of which is " + string(w.kind(s.AdditionalProperties.Schema))
	case s.Type == nil:
		return "any value"
	}
	return html.EscapeString(contract.Describe(s))
}

func (w words) join(refs openapi3.SchemaRefs, with string) string {
	kinds := make([]string, 0, len(refs))
	for _, one := range refs {
		kinds = append(kinds, string(w.kind(one)))
	}
	return strings.Join(kinds, with)
}

func values(all []any) string {
	texts := make([]string, 0, len(all))
	for _, v := range all {
		texts = append(texts, "<code>"+html.EscapeString(fmt.Sprint(v))+"</code>")
	}
	return strings.ReplaceAll(strings.Join(texts, ", "), "<code>&lt;nil&gt;</code>", "null")
}

func between(least uint64, most *uint64) string {
	switch {
	case most == nil:
		return " of values"
	case least == 0:
		return fmt.Sprintf(" of at most %d values", *most)
	}
	return fmt.Sprintf(" of %d to %d values", least, *most)
}
