package contract

import (
	"encoding/base64"
	"io"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// formats hold texts to their formats. The pattern that the library has for the format byte lets
// through what encoding/json cannot read as base64, whose error would name no field.
var formats = openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
	"byte": openapi3.NewCallbackValidator(isBase64),
})

// isBase64 says why a text is no base64 as encoding/json reads it: the standard one, with padding.
func isBase64(text string) error {
	_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	return err
}
