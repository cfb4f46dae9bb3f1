package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lmserve/lmserve/server/problem"
)

// Describe returns in words what a schema accepts.
func Describe(s *openapi3.Schema) string {
	switch {
	case len(s.OneOf) > 0:
		return describeAlternatives(s.OneOf)
	case len(s.Enum) > 0:
		return describeValues(s.Enum)
	case s.Type.Is("integer"):
		return "an integer" + describeRange(s)
	case s.Type.Is("number"):
		return "a number" + describeRange(s)
	case s.Type.Is("boolean"):
		return "true or false"
	case s.Type.Is("string"):
		return describeString(s)
	case s.Type.Is("array"):
		return fmt.Sprintf("%s values, each %s", upTo(s.MinItems, *s.MaxItems),
			Describe(s.Items.Value))
	}
	return describeObject(s)
}

func describeAlternatives(schemas openapi3.SchemaRefs) string {
	alternatives := make([]string, 0, len(schemas))
	for _, ref := range schemas {
		alternatives = append(alternatives, Describe(ref.Value))
	}
	return problem.OneOf(alternatives)
}

func describeValues(values []any) string {
	alternatives := make([]string, 0, len(values))
	for _, v := range values {
		alternatives = append(alternatives, jsonOf(v))
	}
	return problem.OneOf(alternatives)
}

func describeString(s *openapi3.Schema) string {
	text := "a string"
	switch {
	case s.Format == "byte":
		return "a string in base64 with padding"
	case s.Format == "binary":
		return "bytes"
	case s.Format == "date-time":
		return "a time (RFC 3339)"
	case s.MaxLength != nil && *s.MaxLength == 0:
		text = "an empty string"
	case s.MaxLength != nil:
		text = "a string of " + upTo(s.MinLength, *s.MaxLength) + " characters"
	}
	if s.Pattern != "" {
		text += " that matches " + s.Pattern
	}
	return text
}

func describeRange(s *openapi3.Schema) string {
	if s.Min == nil || s.Max == nil {
		return ""
	}
	from := "from"
	if s.ExclusiveMin.Bool != nil && *s.ExclusiveMin.Bool {
		from = "above"
	}
	to := "to"
	if s.ExclusiveMax.Bool != nil && *s.ExclusiveMax.Bool {
		to = "to less than"
	}
	return fmt.Sprintf(" %s %s %s %s", from, decimal(*s.Min), to, decimal(*s.Max))
}

func describeObject(s *openapi3.Schema) string {
	switch {
	case s.MinProps == 1 && s.MaxProps != nil && *s.MaxProps == 1:
		return "an object with one of the fields " +
			problem.OneOf(slices.Sorted(maps.Keys(s.Properties)))
	case len(s.Properties) > 0:
		names := slices.Sorted(maps.Keys(s.Properties))
		return "an object with only the fields " + strings.Join(names, ", ")
	case s.MaxProps != nil:
		return fmt.Sprintf("an object with at most %d fields", *s.MaxProps)
	}
	return "an object"
}

func upTo(least, most uint64) string {
	if least == 0 {
		return fmt.Sprintf("at most %d", most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("a value that JSON cannot hold (%v)", err)
	}
	return problem.Shortened(string(raw))
}
