package strictjson

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// These errors are the kinds of faults in a JSON text. errors.Is reports whether an *Error has one
// of these kinds.
var (
	// ErrSyntax: the text is not one JSON value.
	ErrSyntax = errors.New("not JSON")
	// ErrUTF8: the text is not UTF-8.
	ErrUTF8 = errors.New("not UTF-8")
	// ErrSurrogate: an escape from \uD800 to \uDFFF is not part of a pair, so it encodes no
	// character.
	ErrSurrogate = errors.New("half of a surrogate pair")
	// ErrDuplicate: an object has a repeated name.
	ErrDuplicate = errors.New("a name that occurs twice in an object")
	// ErrUnknown: an object has a name that the format does not define.
	ErrUnknown = errors.New("an unknown name")
	// ErrMissing: an object lacks a required name.
	ErrMissing = errors.New("a missing name")
	// ErrValue: a value is valid JSON, but not the expected one.
	ErrValue = errors.New("a value of a wrong type or out of range")
	// ErrBounds: the text exceeds one of the Bounds.
	ErrBounds = errors.New("out of bounds")
)

// Error says where a text is wrong, what was found there and what was expected.
type Error struct {
	// Offset is the index of the byte where the fault begins, or the text's length if the text ends
	// too early.
	Offset int
	Path   string // path of the field, such as "keys[3].expires"; "" is the whole text
	Found  string
	Want   string
	Kind   error // one of the Err variables
	Cause  error // the underlying error; may be nil
}

func (e *Error) Error() string {
	found := "json: found " + e.Found
	switch {
	case e.Kind == ErrUnknown || e.Kind == ErrMissing:
		found = "json: " + e.Found
	case e.Kind == ErrSyntax && e.Cause != nil:
		found = e.Cause.Error()
	}
	at := "byte " + strconv.Itoa(e.Offset)
	if e.Path != "" {
		at += ", " + e.Path
	}
	return found + " (expected " + e.Want + "; " + at + ")"
}

func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// quotedMax is the maximum number of bytes of a text that an error message quotes.
const quotedMax = 80

// quote puts a part of the text in quotes, for an error message. It shortens a long part, which may
// have megabytes.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(strings.ToValidUTF8(s[:quotedMax], "")) + "…"
	}
	return strconv.Quote(s)
}

func describe(value jsontext.Value) string {
	switch kind := value.Kind(); kind {
	case jsontext.KindString:
		// Unquoting cannot fail, because the decoder has accepted the value.
		text, _ := jsontext.AppendUnquote(nil, value)
		return quote(string(text))
	case jsontext.KindNumber:
		return string(value[:min(len(value), quotedMax)])
	default:
		return describeKind(kind)
	}
}

// kinds maps kinds of JSON values to words for error messages. For a kind that is not in the map,
// such as null, the method String returns the word.
var kinds = map[jsontext.Kind]string{
	jsontext.KindBeginObject: "an object",
	jsontext.KindEndObject:   "the end of an object",
	jsontext.KindBeginArray:  "an array",
	jsontext.KindEndArray:    "the end of an array",
	jsontext.KindString:      "a string",
	jsontext.KindNumber:      "a number",
}

func describeKind(kind jsontext.Kind) string { return cmp.Or(kinds[kind], kind.String()) }
