package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/lmserve/lmserve/api"
)

// contractProblem says in the contract's terms what validation found: which field, what was found there, what was expected.
func contractProblem(err error) *problem {
	var request *openapi3filter.RequestError
	var schema *openapi3.SchemaError
	if !errors.As(err, &request) {
		return newProblem(api.ProblemMalformedBody, err.Error())
	}
	isSchema := errors.As(request.Err, &schema)
	switch {
	case request.Parameter != nil && isSchema:
		return fieldProblem(api.ProblemInvalidParameter, request.Parameter.Name, jsonOf(schema.Value), describe(schema.Schema))
	case request.Parameter != nil:
		return fieldProblem(api.ProblemInvalidParameter, request.Parameter.Name, "a value that cannot be read", describe(request.Parameter.Schema.Value))
	case isSchema:
		return schemaProblem(schema)
	case errors.Is(request.Err, openapi3filter.ErrInvalidRequired):
		return newProblem(api.ProblemMalformedBody, "The body is empty; a JSON object was expected.")
	}
	return newProblem(api.ProblemMalformedBody, request.Error())
}

// schemaProblem is the problem of one field of a JSON body.
func schemaProblem(e *openapi3.SchemaError) *problem {
	path := e.JSONPointer()
	switch e.SchemaField {
	case "properties": // its path ends at the object that has the unknown field
		return fieldProblem(api.ProblemInvalidField, fieldPath(append(path, unknownField(e))), "an unknown field", describe(e.Schema))
	case "required":
		return fieldProblem(api.ProblemInvalidField, fieldPath(path), "no such field", "one")
	}
	return fieldProblem(api.ProblemInvalidField, fieldPath(path), jsonOf(e.Value), describe(e.Schema))
}

// unknownField finds the first field of an object that its schema does not have.
func unknownField(e *openapi3.SchemaError) string {
	object, _ := e.Value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if e.Schema.Properties[name] == nil {
			return name
		}
	}
	return ""
}

// fieldPath writes a path as problems have it, "settings.gammas[1]"; the body itself is "body".
func fieldPath(path []string) string {
	if len(path) == 0 {
		return "body"
	}
	var b strings.Builder
	for i, name := range path {
		_, notIndex := strconv.Atoi(name)
		switch {
		case notIndex == nil:
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return shortened(b.String())
}

// describe says in words what a schema accepts.
func describe(s *openapi3.Schema) string {
	switch {
	case len(s.OneOf) > 0:
		return oneOf(mapped(s.OneOf, func(ref *openapi3.SchemaRef) string { return describe(ref.Value) }))
	case len(s.Enum) > 0:
		return oneOf(mapped(s.Enum, jsonOf))
	case s.Type.Is("integer"):
		return "an integer" + describeRange(s)
	case s.Type.Is("number"):
		return "a number" + describeRange(s)
	case s.Type.Is("boolean"):
		return "true or false"
	case s.Type.Is("string"):
		return describeString(s)
	case s.Type.Is("array"):
		return fmt.Sprintf("%d to %d values, each %s", s.MinItems, *s.MaxItems, describe(s.Items.Value))
	}
	return describeObject(s)
}

func describeString(s *openapi3.Schema) string {
	switch {
	case s.Format == "byte":
		return "a string in base64 with padding"
	case s.MaxLength != nil:
		return fmt.Sprintf("a string of %d to %d characters", s.MinLength, *s.MaxLength)
	}
	return "a string"
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
		return "an object with one of the fields " + oneOf(slices.Sorted(maps.Keys(s.Properties)))
	case len(s.Properties) > 0:
		return "an object with no fields but " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
	case s.MaxProps != nil:
		return fmt.Sprintf("an object with at most %d fields", *s.MaxProps)
	}
	return "an object"
}

// decimal writes a number without an exponent.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// mapped applies f to every element.
func mapped[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// jsonOf writes a value as JSON, shortened.
func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("a value that JSON cannot hold (%v)", err)
	}
	return shortened(string(raw))
}

// quoted writes a client's string between quotes, shortened.
func quoted(s string) string { return shortened(strconv.Quote(s)) }

// shortened cuts a string off after foundCharsMax characters.
func shortened(s string) string { return clipped(s, foundCharsMax) }

// clipped cuts a string off after so many characters.
func clipped(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// respondParameterError answers a parameter that does not fit its type.
func (s *Server) respondParameterError(w http.ResponseWriter, r *http.Request, err error) {
	op := s.contract.operation(r)
	if p := checkQuery(r, op); p != nil {
		s.respondError(w, r, p)
		return
	}
	var invalid *api.InvalidParamFormatError
	if errors.As(err, &invalid) {
		err = fieldProblem(api.ProblemInvalidParameter, invalid.ParamName, quoted(r.URL.Query().Get(invalid.ParamName)),
			describe(op.parameter(invalid.ParamName).Schema.Value))
	} else {
		err = newProblem(api.ProblemInvalidParameter, err.Error())
	}
	s.respondError(w, r, err)
}
