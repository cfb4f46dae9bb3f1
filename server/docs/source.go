package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source is the contract's text and the order of the names in it. The parsed contract loses the
// order, because it uses maps.
type source struct {
	Paths      ordered
	Components struct {
		Schemas  map[string]struct{ Properties ordered }
		Examples map[string]example
	}
	Info struct {
		Limits ordered `yaml:"x-limits"`
	}

	text string
}

func readSource(text []byte) (source, error) {
	var s source
	if err := yaml.Unmarshal(text, &s); err != nil {
		return source{}, fmt.Errorf("docs: openapi.yaml: %w", err)
	}
	s.text = string(text)
	return s, nil
}

// place returns the byte offset at which the contract first refers to an example. It looks for the
// example's request and, if there is none, for the answer.
func (s source) place(exchange string) int {
	reference := "#/components/examples/" + exchange
	if at := strings.Index(s.text, reference+".request"); at >= 0 {
		return at
	}
	return strings.Index(s.text, reference+".answer")
}

// ordered lists the names of an object in file order.
type ordered []string

func (o *ordered) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i < len(n.Content); i += 2 {
		*o = append(*o, n.Content[i].Value)
	}
	return nil
}

func (o ordered) compare(a, b string) int { return slices.Index(o, a) - slices.Index(o, b) }

// example is an example in the contract: the body of a request or an answer. The example of an
// answer also has the request that produced the answer.
type example struct {
	Summary string
	Request string    `yaml:"x-request"`
	Status  int       `yaml:"x-status"`
	Headers yaml.Node `yaml:"x-headers"`
	Value   yaml.Node
}

// isText reports whether the body is text or bytes, not JSON.
func (e example) isText() bool { return e.Value.Kind == yaml.ScalarNode && e.Value.Tag == "!!str" }

// read returns the example's body. JSON is indented; any other body is unchanged.
func (e example) read() string {
	if e.isText() {
		return e.Value.Value
	}
	var b strings.Builder
	writeJSON(&b, &e.Value, "\n", true)
	return b.String()
}

func (e example) line() string {
	var b strings.Builder
	writeJSON(&b, &e.Value, "", false)
	return b.String()
}

// writeJSON writes a value as JSON with names in file order. If lines is true, an object or list
// that spans several lines in the contract also spans several lines in the result. indent is a
// newline and the spaces after it.
func writeJSON(b *strings.Builder, n *yaml.Node, indent string, lines bool) {
	open, end, step := "{", "}", 2
	switch n.Kind {
	case yaml.ScalarNode:
		b.WriteString(scalar(n))
		return
	case yaml.SequenceNode:
		open, end, step = "[", "]", 1
	}
	inner, separator := indent+"  ", ","
	if !lines || n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 {
		lines, inner, indent, separator = false, "", "", ", "
	}
	b.WriteString(open)
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(inner)
		if step == 2 {
			b.WriteString(scalar(n.Content[i]) + ": ")
		}
		writeJSON(b, n.Content[i+step-1], inner, lines)
	}
	b.WriteString(indent + end)
}

func scalar(n *yaml.Node) string {
	if n.Tag != "!!str" {
		return n.Value
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(n.Value) // a string always encodes as JSON
	return strings.TrimSpace(b.String())
}
