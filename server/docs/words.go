package docs

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/yuin/goldmark"
)

const (
	schemaPrefix  = "#/components/schemas/"
	problemPrefix = "urn:lmserve:problem:"
)

// words writes what the contract says as HTML, with links to what it names.
type words struct{ doc *openapi3.T }

// code is what stands between backticks.
var code = regexp.MustCompile(`<code>([A-Za-z-]+)</code>`)

// text is a description: CommonMark, with links to the schemas and problems that it names.
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

// phrase is a description of one paragraph, without the paragraph.
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

// kind says what values a schema has; a schema with a name is a link.
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

// bare says what values a schema without a name has.
func (w words) bare(s *openapi3.Schema) string {
	switch {
	case len(s.OneOf) > 0:
		return w.join(s.OneOf, " or ")
	case len(s.Enum) > 0:
		return values(s.Enum)
	case s.Type.Is("array"):
		return "list of " + string(w.kind(s.Items)) + between(s.MinItems, s.MaxItems, "of them")
	case s.Type.Is("integer"), s.Type.Is("number"):
		return s.Type.Slice()[0] + limitsOf(s)
	case s.Type.Is("string"):
		return stringKind(s)
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		return "object of " + string(w.kind(s.AdditionalProperties.Schema))
	case s.Type != nil:
		return strings.Join(s.Type.Slice(), " or ")
	}
	return "any value"
}

func (w words) join(refs openapi3.SchemaRefs, with string) string {
	kinds := make([]string, 0, len(refs))
	for _, one := range refs {
		kinds = append(kinds, string(w.kind(one)))
	}
	return strings.Join(kinds, with)
}

// values lists the values of an enumeration.
func values(all []any) string {
	texts := make([]string, 0, len(all))
	for _, v := range all {
		texts = append(texts, "<code>"+html.EscapeString(fmt.Sprint(v))+"</code>")
	}
	return strings.ReplaceAll(strings.Join(texts, ", "), "<code>&lt;nil&gt;</code>", "null")
}

// stringKind says what strings a schema takes.
func stringKind(s *openapi3.Schema) string {
	kind := "string"
	switch s.Format {
	case "byte":
		kind = "string in base64"
	case "binary":
		kind = "bytes"
	case "date-time":
		kind = "time (RFC 3339)"
	}
	kind += between(s.MinLength, s.MaxLength, "characters")
	if s.Pattern != "" {
		kind += ", <code>" + html.EscapeString(s.Pattern) + "</code>"
	}
	return kind
}

// between says how many there may be of something; nothing if there is no limit.
func between(least uint64, most *uint64, what string) string {
	switch {
	case most == nil:
		return ""
	case least == 0:
		return fmt.Sprintf(", at most %d %s", *most, what)
	}
	return fmt.Sprintf(", %d to %d %s", least, *most, what)
}

// limitsOf says from where to where the numbers of a schema go.
func limitsOf(s *openapi3.Schema) string {
	if s.Min == nil || s.Max == nil {
		return ""
	}
	from, to := ", ", " to "
	if s.ExclusiveMin.IsTrue() {
		from = ", above "
	}
	if s.ExclusiveMax.IsTrue() {
		to = " to below "
	}
	plain := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	return from + plain(*s.Min) + to + plain(*s.Max)
}
