package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/strictjson"
)

// validate holds a request against the contract: its parameters, and its body if that is JSON. Streamed bodies pass untouched: validation
// would read them into memory.
func (s *Server) validate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := s.contract.operation(r)
		if p := checkQuery(r, op); p != nil {
			s.respondError(w, r, p)
			return
		}
		isJSON := isJSONBody(r) && len(op.accepts) > 0 || slices.Equal(op.accepts, []string{mediaJSON})
		if isJSON {
			raw, err := readJSON(r.Body)
			if err != nil {
				s.respondError(w, r, err)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		}
		err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
			Request:    r,
			PathParams: pathParams(r),
			Route:      op.route,
			Options: &openapi3filter.Options{
				ExcludeRequestBody:  !isJSON,
				SkipSettingDefaults: true, // these are the session's
				KeepValidatedValue:  true, // what is decoded is what was validated
			},
		})
		if err != nil {
			s.respondError(w, r, contractProblem(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// pathParams gives the parameters the router found in the path.
func pathParams(r *http.Request) map[string]string {
	params := map[string]string{}
	route := chi.RouteContext(r.Context())
	for i, key := range route.URLParams.Keys {
		params[key] = route.URLParams.Values[i]
	}
	return params
}

// checkQuery refuses parameters the contract does not have, which would otherwise be passed over in silence (a mistyped offset!), and
// parameters given twice.
func checkQuery(r *http.Request, op *operation) *problem {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if op.parameter(name) == nil {
			return fieldProblem(api.ProblemInvalidParameter, name, "an unknown parameter", "only the parameters of the contract")
		}
		if n := len(query[name]); n > 1 {
			return fieldProblem(api.ProblemInvalidParameter, name, fmt.Sprintf("%d values", n), "one")
		}
	}
	return nil
}

// readJSON reads a whole body that must be one JSON value as package strictjson has it: a name given twice would win over the first in
// silence, and what is no character would be replaced by one. An empty body is none.
func readJSON(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, bodyProblem(err)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, jsonProblem(raw, err)
	}
	return raw, nil
}

// jsonProblem says where a body stops being the JSON that is asked for.
func jsonProblem(raw []byte, err error) *problem {
	const escapeBytes = len(`\uXXXX`)
	var fault *strictjson.Error
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &fault):
	case fault.Kind == strictjson.ErrUTF8:
		return newProblem(api.ProblemMalformedBody,
			fmt.Sprintf("Byte %d of the body, 0x%02X, is not UTF-8. Text of other bytes can be sent as base64.", fault.Offset, raw[fault.Offset]))
	case fault.Kind == strictjson.ErrSurrogate:
		return newProblem(api.ProblemMalformedBody, fmt.Sprintf("The escape at byte %d of the body, %s, is half of a surrogate pair, not a character.",
			fault.Offset, raw[fault.Offset:fault.Offset+escapeBytes]))
	case fault.Kind == strictjson.ErrDuplicate:
		return fieldProblem(api.ProblemInvalidField, shortened(fault.Path), "a field given twice", "it once")
	case errors.As(err, &syntax):
		return newProblem(api.ProblemMalformedBody, fmt.Sprintf("Not JSON at byte %d of the body: %s.", syntax.Offset, syntax))
	}
	return newProblem(api.ProblemMalformedBody, err.Error())
}
