package strictjson

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// plain matches names that need no quotes in a path.
var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// path formats a JSON pointer for error messages, as in "keys[3].expires". A number in a pointer
// may be an index of an array or a name in an object. The decoder's stack tells which, because it
// has the arrays and objects that contain the value.
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
		if plain.MatchString(token) {
			b.WriteString(token)
		} else {
			b.WriteString(quote(token))
		}
	}
	return b.String()
}

// skipSpace returns the offset of the first byte of text[at:] that is not JSON's white space, or
// the text's length.
func skipSpace(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	return at
}
