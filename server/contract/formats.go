package contract

import (
	"encoding/base64"
	"io"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// formats validates strings by format. For the format byte, the library's pattern accepts strings
// that encoding/json cannot decode. The error of encoding/json would not name the field.
var formats = openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
	"byte": openapi3.NewCallbackValidator(isBase64),
})

// isBase64 returns an error unless text is padded standard base64, as encoding/json requires.
func isBase64(text string) error {
	_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	return err
}
