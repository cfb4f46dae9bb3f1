package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-chi/chi/v5"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/problem"
)

// Validate holds a request against the contract: its parameters, and its body if that is JSON. The
// body is then what was validated, in memory. Other bodies pass untouched, as validation would read
// the whole stream into memory. The error is a problem.
func (o *Operation) Validate(r *http.Request) error {
	if p := o.checkQuery(r); p != nil {
		return p
	}
	isJSON := IsJSONBody(r) && len(o.Accepts) > 0 || slices.Equal(o.Accepts, []string{MediaJSON})
	if isJSON {
		raw, err := readJSON(r.Body)
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
			SkipSettingDefaults: true, // defaults are the session's to choose
			KeepValidatedValue:  true, // a handler decodes the very value that was validated
		},
	})
	if err != nil {
		return validationProblem(err)
	}
	return nil
}

// pathParams gives the parameters that the router has found in the path.
func pathParams(r *http.Request) map[string]string {
	params := map[string]string{}
	route := chi.RouteContext(r.Context())
	for i, key := range route.URLParams.Keys {
		params[key] = route.URLParams.Values[i]
	}
	return params
}

// checkQuery refuses parameters that the contract does not have, and parameters given twice.
// Nothing else would notice a mistyped offset.
func (o *Operation) checkQuery(r *http.Request) *problem.Problem {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if o.parameter(name) == nil {
			return problem.Field(api.ProblemInvalidParameter, name,
				"an unknown parameter", "only the parameters of the contract")
		}
		if n := len(query[name]); n > 1 {
			return problem.Field(api.ProblemInvalidParameter, name, fmt.Sprintf("%d values", n), "one")
		}
	}
	return nil
}

// ParameterProblem says which parameter of a request the generated router could not read.
func (o *Operation) ParameterProblem(r *http.Request, err error) *problem.Problem {
	if p := o.checkQuery(r); p != nil {
		return p
	}
	var invalid *api.InvalidParamFormatError
	if !errors.As(err, &invalid) {
		return problem.New(api.ProblemInvalidParameter, err.Error())
	}
	name := invalid.ParamName
	return problem.Field(api.ProblemInvalidParameter, name, problem.Quoted(r.URL.Query().Get(name)),
		describe(o.parameter(name).Schema.Value))
}

// readJSON reads a whole body that must be one JSON value in UTF-8. An empty body is none.
// encoding/json replaces what is not UTF-8 in silence, and so changes the text: that is found here.
func readJSON(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, problem.OfBody(err)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if i := invalidUTF8(raw); i >= 0 {
		return nil, problem.New(api.ProblemMalformedBody,
			fmt.Sprintf("Byte %d of the body, 0x%02X, is not UTF-8. Text of other bytes can be sent as base64.", i, raw[i]))
	}
	var value json.RawMessage
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, syntaxProblem(err)
	}
	if i := loneSurrogate(raw); i >= 0 {
		return nil, problem.New(api.ProblemMalformedBody,
			fmt.Sprintf("The escape at byte %d of the body, %s, is half of a surrogate pair, not a character.", i, raw[i:i+6]))
	}
	return raw, nil
}

// syntaxProblem says where JSON stops being JSON.
func syntaxProblem(err error) *problem.Problem {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return problem.New(api.ProblemMalformedBody, fmt.Sprintf("Not JSON at byte %d of the body: %s.", syntax.Offset, syntax))
	}
	return problem.New(api.ProblemMalformedBody, err.Error())
}

// invalidUTF8 gives the index of the first byte that is not UTF-8, or -1.
func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// loneSurrogate gives the index of the first escape \uD800..\uDFFF in valid JSON that is not one of
// a pair, or -1.
func loneSurrogate(raw []byte) int {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, ok := unicodeEscape(raw[i:])
		switch {
		case !ok:
			i++ // the escaped character
		case isSurrogate(first, 0xD800):
			if second, ok := unicodeEscape(raw[i+6:]); !ok || !isSurrogate(second, 0xDC00) {
				return i
			}
			i += 11
		case isSurrogate(first, 0xDC00):
			return i
		default:
			i += 5
		}
	}
	return -1
}

// isSurrogate reports whether u is one of the 1,024 code units from base on.
func isSurrogate(u uint16, base uint16) bool { return u&0xFC00 == base }

// unicodeEscape reads an escape of the form \uXXXX.
func unicodeEscape(raw []byte) (u uint16, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, c := range raw[2:6] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 {
			return 0, false
		}
		u = u<<4 | uint16(digit)
	}
	return u, true
}
