package contract

import (
	"encoding/base64"
	"io"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// formats validates strings of the format byte, which are base64. The library's own pattern accepts
// strings that encoding/json rejects with an error that does not name the field.
var formats = openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
	"byte": openapi3.NewCallbackValidator(isBase64),
})

// isBase64 returns an error unless text is padded standard base64, as encoding/json requires.
func isBase64(text string) error {
	_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	return err
}
