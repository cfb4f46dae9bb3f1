package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// RequestSchema returns the OpenAPI schema of the settings in a request. The result is unindented
// YAML for the `properties` of an object.
func (t Table[T]) RequestSchema() string {
	var b strings.Builder
	for _, r := range t {
		if r.Schema != "" {
			fmt.Fprintf(&b, "%s: { $ref: \"#/components/schemas/%s\" }\n", r.Name, r.Schema)
			continue
		}
		fmt.Fprintf(&b, "%s:\n", r.Name)
		switch _, list := r.Field(new(T)).(*[]float32); {
		case list:
			fmt.Fprintf(&b, "  type: array\n  minItems: 1\n  maxItems: %d\n", r.MaxItems)
			fmt.Fprintf(&b, "  items: { %s }\n", strings.Join(r.number(), ", "))
		default:
			for _, keyword := range r.number() {
				fmt.Fprintf(&b, "  %s\n", keyword)
			}
		}
		if r.hasLiteral() {
			fmt.Fprintf(&b, "  default: %s\n", r.Default)
		}
		b.WriteString("  description: >-\n")
		for _, line := range wrapped(r.describe(), 80) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}

func (r Row[T]) hasLiteral() bool {
	if r.IsBool() {
		_, err := strconv.ParseBool(r.Default)
		return err == nil
	}
	_, err := strconv.ParseFloat(r.Default, 64)
	return err == nil
}

// AnswerSchema returns the OpenAPI schema of the settings in an answer. The result is unindented
// YAML: `required` and `properties` of an object.
func (t Table[T]) AnswerSchema() string {
	var b strings.Builder
	fmt.Fprintf(&b, "required: [%s]\nproperties:\n", strings.Join(t.names(), ", "))
	for _, r := range t {
		keywords := strings.Join(r.kind(), ", ")
		switch _, list := r.Field(new(T)).(*[]float32); {
		case r.Schema != "":
			keywords = fmt.Sprintf("$ref: \"#/components/schemas/%s\"", r.Schema)
		case list:
			keywords = "type: array, items: { " + keywords + " }"
		}
		fmt.Fprintf(&b, "  %s: { %s }\n", r.Name, keywords)
	}
	return b.String()
}

// Order returns unindented YAML for `update` in an OpenAPI overlay. The YAML numbers the settings,
// so that generated Go structs keep their order.
func (t Table[T]) Order() string {
	var b strings.Builder
	for i, r := range t {
		fmt.Fprintf(&b, "%s: { x-order: %d }\n", r.Name, i+1)
	}
	return b.String()
}

// Limits returns the maxima as YAML for info.x-limits of the OpenAPI contract. Rows with the same
// limit must have the same maximum.
func (t Table[T]) Limits() string {
	var b strings.Builder
	seen := map[string]float64{}
	for _, r := range t {
		most := r.Max
		if r.MaxItems > 0 {
			most = float64(r.MaxItems)
		}
		before, again := seen[r.Limit]
		switch {
		case r.Limit == "":
		case !again:
			seen[r.Limit] = most
			fmt.Fprintf(&b, "%s: %s\n", r.Limit, decimal(most))
		case before != most:
			panic(fmt.Sprintf("setting: %s: the limit %s is %s here, but %s in an earlier row",
				r.Name, r.Limit, decimal(most), decimal(before)))
		}
	}
	return b.String()
}

func (r Row[T]) describe() string {
	text := r.Help
	if len(r.Methods) > 0 {
		text = "For `" + strings.Join(r.Methods, "` and `") + "`: " + text
	}
	text = strings.ToUpper(text[:1]) + text[1:] + "."
	if r.Note != "" {
		text += " " + r.Note
	}
	return text
}

func (r Row[T]) kind() []string {
	switch r.Field(new(T)).(type) {
	case *string:
		return []string{"type: string"}
	case *bool:
		return []string{"type: boolean"}
	case *int:
		return []string{"type: integer"}
	case *float64:
		return []string{"type: number", "format: double"}
	}
	return []string{"type: number", "format: float"}
}

// number returns the JSON Schema type and range of the setting or, for a list, of each number.
func (r Row[T]) number() []string {
	keywords := r.kind()
	switch r.Field(new(T)).(type) {
	case *string:
		return append(keywords, "enum: ["+strings.Join(r.Words, ", ")+"]")
	case *bool:
		return keywords
	}
	keywords = append(keywords, "minimum: "+decimal(r.Min))
	if r.Above {
		keywords = append(keywords, "exclusiveMinimum: true")
	}
	keywords = append(keywords, "maximum: "+decimal(r.Max))
	if r.Below {
		keywords = append(keywords, "exclusiveMaximum: true")
	}
	return keywords
}

// wrapped breaks a text at spaces into lines. Parameter `most` is the maximum length in bytes; a
// longer word gets its own line.
func wrapped(text string, most int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > most {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
