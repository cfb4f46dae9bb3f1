package contract

import (
	"errors"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// validationProblem says in the contract's terms what validation found: which field or parameter,
// what was found there, and what was expected.
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
			jsonOf(schema.Value), describe(schema.Schema))
	case request.Parameter != nil:
		return problem.Field(api.ProblemInvalidParameter, request.Parameter.Name,
			"a value that cannot be read", describe(request.Parameter.Schema.Value))
	case isSchema:
		return schemaProblem(schema)
	case errors.Is(request.Err, openapi3filter.ErrInvalidRequired):
		return problem.New(api.ProblemMalformedBody, "The body is empty; a JSON object was expected.")
	}
	return problem.New(api.ProblemMalformedBody, request.Error())
}

// schemaProblem is the problem of one field of a JSON body.
func schemaProblem(e *openapi3.SchemaError) *problem.Problem {
	path := e.JSONPointer()
	switch e.SchemaField {
	case "properties": // the path ends at the object that has the unknown field
		return invalidField(append(path, unknownField(e)), "an unknown field", describe(e.Schema))
	case "required":
		return invalidField(path, "no such field", "one")
	}
	return invalidField(path, jsonOf(e.Value), describe(e.Schema))
}

func invalidField(path []string, found, expected string) *problem.Problem {
	return problem.Field(api.ProblemInvalidField, problem.FieldPath(path), found, expected)
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
