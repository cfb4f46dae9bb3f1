package contract

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/server/problem"
)

// validationProblem turns a validation error into a problem document that names the field or
// parameter, the value found, and the value expected.
func validationProblem(err error) *problem.Problem {
	var request *openapi3filter.RequestError
	var schema *openapi3.SchemaError
	if !errors.As(err, &request) {
		return problem.New(api.ProblemMalformedBody, err.Error())
	}
	isSchema := errors.As(request.Err, &schema)
	switch {
	case request.Parameter != nil && isSchema:
		return problem.Field(api.ProblemInvalidParameter, request.Parameter.Name,
			jsonOf(schema.Value), Describe(schema.Schema))
	case request.Parameter != nil:
		return problem.Field(api.ProblemInvalidParameter, request.Parameter.Name,
			"an unreadable value", Describe(request.Parameter.Schema.Value))
	case isSchema:
		return schemaProblem(schema)
	case errors.Is(request.Err, openapi3filter.ErrInvalidRequired):
		return problem.New(api.ProblemMalformedBody, "The body is empty; a JSON object was "+
			"expected.")
	}
	return problem.New(api.ProblemMalformedBody, request.Error())
}

func schemaProblem(e *openapi3.SchemaError) *problem.Problem {
	path := e.JSONPointer()
	switch e.SchemaField {
	case "properties": // The path leads to the object, not to the unknown field.
		return invalidField(append(path, unknownField(e)), "an unknown field", Describe(e.Schema))
	case "required":
		return invalidField(path, "nothing", "a value")
	}
	return invalidField(path, jsonOf(e.Value), Describe(e.Schema))
}

func invalidField(path []string, found, expected string) *problem.Problem {
	return problem.Field(api.ProblemInvalidField, problem.FieldPath(path), found, expected)
}

func unknownField(e *openapi3.SchemaError) string {
	object, _ := e.Value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if e.Schema.Properties[name] == nil {
			return name
		}
	}
	return ""
}

// boundsProblem returns the problem document for a JSON body that exceeds a bound. If the schema
// knows the field, the document says what the contract expects there.
func (o *Operation) boundsProblem(fault *strictjson.Error) *problem.Problem {
	schema := o.route.Operation.RequestBody.Value.Content[MediaJSON].Schema.Value
	isBracket := func(r rune) bool { return strings.ContainsRune(".[]", r) }
	names := strings.FieldsFunc(fault.Path, isBracket)
	for i, name := range names {
		next := schema.Properties[name]
		_, notIndex := strconv.Atoi(name)
		switch {
		case next != nil:
			schema = next.Value
		case schema.Items != nil:
			schema = schema.Items.Value
		case notIndex == nil:
			return invalidField(names[:i], "an array", Describe(schema))
		case len(schema.Properties) > 0:
			return invalidField(names[:i+1], "an unknown field", Describe(schema))
		default:
			return invalidField(names, fault.Found, fault.Want)
		}
	}
	return invalidField(names, fault.Found, Describe(schema))
}
