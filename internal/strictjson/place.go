package strictjson

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// plainNameMax is the most bytes of a name that a path has unquoted.
const plainNameMax = 64

// path writes a JSON pointer as the errors of this module have it, "keys[3].expires". The decoder,
// which stands in the innermost of the pointer's objects and arrays, knows which is which.
func path(dec *jsontext.Decoder, pointer jsontext.Pointer) string {
	var b strings.Builder
	level := 0
	for token := range pointer.Tokens() {
		level++
		inArray := false
		if level <= dec.StackDepth() {
			kind, _ := dec.StackIndex(level)
			inArray = kind == jsontext.KindBeginArray
		}
		switch {
		case inArray:
			b.WriteString("[" + token + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		if isPlain(token) {
			b.WriteString(token)
		} else {
			b.WriteString(quote(token))
		}
	}
	return b.String()
}

// isPlain tells whether a name needs no quotes in a path.
func isPlain(name string) bool {
	if name == "" || len(name) > plainNameMax {
		return false
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// skipSpace returns the offset of the first byte from at on that is not JSON's white space.
func skipSpace(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	return at
}
