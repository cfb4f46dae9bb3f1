package problem

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/server/limits"
)

// FieldPath formats a field's path for problems, such as "settings.gammas[1]". An empty path is
// "body".
func FieldPath(path []string) string {
	if len(path) == 0 {
		return "body"
	}
	var b strings.Builder
	for i, name := range path {
		_, notIndex := strconv.Atoi(name)
		switch {
		case notIndex == nil:
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return Shortened(b.String())
}

// Quoted quotes a client's string and shortens it.
func Quoted(s string) string { return Shortened(strconv.Quote(s)) }

// Shortened truncates a string to limits.FoundCharsMax characters.
func Shortened(s string) string { return Clipped(s, limits.FoundCharsMax) }

// Clipped truncates a string to charsMax characters.
func Clipped(s string, charsMax int) string {
	n := 0
	for i := range s {
		if n == charsMax {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// OneOf lists alternatives in words: "a", "a or b", "a, b or c".
func OneOf(alternatives []string) string {
	if len(alternatives) == 1 {
		return alternatives[0]
	}
	last := len(alternatives) - 1
	return fmt.Sprintf("%s or %s", strings.Join(alternatives[:last], ", "), alternatives[last])
}
