package watch

import (
	"strings"
	"unicode"

	"github.com/dustin/go-humanize/english"

	"github.com/lmserve/lmserve/api/client"
)

// Mark returns the part of a line's text that makes the line strange, as a range of bytes. The
// result ok is false if no part is known.
func Mark(l *client.LineEvent) (span client.LineSpan, ok bool) {
	size := int64(len(l.TextBytes()))
	span = client.LineSpan{From: min(max(l.Span.From, 0), size), To: min(l.Span.To, size)}
	return span, span.From < span.To
}

// usualBytes is the maximum length in bytes of a usual word in the server's explanation of a line.
// The server cuts longer words.
const usualBytes = 12

// Reason returns in words why a line is strange: "502 after HTTP/1.1; usually 200, 304". It returns
// "" if nothing is known.
func Reason(why *client.LineWhy) string {
	if why == nil {
		return ""
	}
	text := why.Token
	switch {
	case why.Lines != nil && *why.Lines == 0:
		text += " is new"
	case why.Lines != nil:
		text += " was in " + english.Plural(int(*why.Lines), "line", "") + " before"
	case why.Before != "":
		text += " after " + why.Before
	}
	for i, usual := range why.Usual {
		if len(usual) >= usualBytes {
			usual += cut
		}
		text += [2]string{"; usually ", ", "}[min(i, 1)] + usual
	}
	return strings.Map(plainRune, text)
}

func plainRune(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
