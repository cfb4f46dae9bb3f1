package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/strictjson"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
	"github.com/lmserve/lmserve/server/routes"
)

// Validate checks a request's parameters and JSON body against the contract. It replaces a JSON
// body by the validated copy in memory. It does not read other bodies, because validation would
// hold a whole stream in memory. The error is a problem document.
func (o *Operation) Validate(r *http.Request) error {
	if p := o.checkQuery(r); p != nil {
		return p
	}
	isJSON := o.TakesJSON(r)
	if isJSON {
		raw, err := o.readJSON(r.Body)
		if err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	}
	err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request:    r,
		PathParams: pathParams(r),
		Route:      o.route,
		Options: &openapi3filter.Options{
			ExcludeRequestBody:  !isJSON,
			SkipSettingDefaults: true, // Sessions set the defaults.
			KeepValidatedValue:  true, // handlers decode the value that was validated

			SchemaValidationOptions: []openapi3.SchemaValidationOption{formats},
		},
	})
	if err != nil {
		return validationProblem(err)
	}
	return nil
}

// TakesJSON reports whether the operation reads the request's body as JSON.
func (o *Operation) TakesJSON(r *http.Request) bool {
	if o.Raw {
		return false
	}
	return IsJSONBody(r) && len(o.Accepts) > 0 || slices.Equal(o.Accepts, []string{MediaJSON})
}

// TokensBeyond returns by how many JSON values a body of the given length may exceed the usual
// limit. Each value takes memory, however short it is.
func (o *Operation) TokensBeyond(bytes int64) int64 {
	// A JSON value takes at least two bytes.
	return min(bytes/2, int64(o.bounds.Tokens-limits.JSONTokensMax))
}

func pathParams(r *http.Request) map[string]string {
	params := map[string]string{}
	route := chi.RouteContext(r.Context())
	for i, key := range route.URLParams.Keys {
		params[key] = route.URLParams.Values[i]
	}
	return params
}

// checkQuery refuses unknown and repeated parameters, so that a mistyped name does not go
// unnoticed. It also refuses a malformed query, because URL.Query drops malformed parameters.
func (o *Operation) checkQuery(r *http.Request) *problem.Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.New(api.ProblemInvalidParameter,
			fmt.Sprintf("The query of the URL is malformed: %v.", err))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if o.parameter(name) == nil {
			return problem.Field(api.ProblemInvalidParameter, name,
				"an unknown parameter", "a parameter of this operation")
		}
		if n := len(query[name]); n > 1 {
			return problem.Field(api.ProblemInvalidParameter, name, fmt.Sprintf("%d values", n),
				"one value")
		}
	}
	return nil
}

// ParameterProblem returns the problem document for a parameter that the generated router could not
// decode.
func (o *Operation) ParameterProblem(r *http.Request, err error) *problem.Problem {
	if p := o.checkQuery(r); p != nil {
		return p
	}
	var invalid *routes.InvalidParamFormatError
	if !errors.As(err, &invalid) {
		return problem.New(api.ProblemInvalidParameter, err.Error())
	}
	name := invalid.ParamName
	parameter := o.parameter(name)
	found := r.URL.Query().Get(name)
	if parameter.In == openapi3.ParameterInHeader {
		found = r.Header.Get(name)
	}
	return problem.Field(api.ProblemInvalidParameter, name, problem.Quoted(found),
		Describe(parameter.Schema.Value))
}

// readJSON reads a body that is empty or one JSON value as defined by package strictjson.
// encoding/json would silently accept duplicate names and replace invalid characters. The bounds
// apply while the body arrives, before it is parsed.
func (o *Operation) readJSON(body io.Reader) ([]byte, error) {
	raw, err := strictjson.ReadBounded(body, o.bounds)
	var fault *strictjson.Error
	switch {
	case errors.As(err, &fault) && fault.Kind == strictjson.ErrBounds:
		return nil, o.boundsProblem(fault)
	case fault != nil:
		return nil, jsonProblem(raw, err)
	case err != nil:
		return nil, problem.OfBody(err)
	case len(bytes.TrimSpace(raw)) == 0:
		return nil, nil
	}
	return raw, nil
}

// jsonProblem says where a body stops being valid JSON.
func jsonProblem(raw []byte, err error) *problem.Problem {
	const escapeBytes = len(`\uXXXX`)
	var fault *strictjson.Error
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &fault):
	case fault.Kind == strictjson.ErrUTF8:
		return problem.New(api.ProblemMalformedBody, fmt.Sprintf(
			"Byte %d of the body, 0x%02X, is not UTF-8. Send text that is not UTF-8 as base64.",
			fault.Offset, raw[fault.Offset]))
	case fault.Kind == strictjson.ErrSurrogate:
		return problem.New(api.ProblemMalformedBody, fmt.Sprintf(
			"The escape at byte %d of the body, %s, is half of a surrogate pair, not a character.",
			fault.Offset, raw[fault.Offset:fault.Offset+escapeBytes]))
	case fault.Kind == strictjson.ErrDuplicate:
		return problem.Field(api.ProblemInvalidField, problem.Shortened(fault.Path),
			"a duplicate field", "the field once")
	case errors.As(err, &syntax):
		return problem.New(api.ProblemMalformedBody, fmt.Sprintf("The body is not valid JSON at "+
			"byte %d: %s.", syntax.Offset, syntax))
	}
	return problem.New(api.ProblemMalformedBody, err.Error())
}
