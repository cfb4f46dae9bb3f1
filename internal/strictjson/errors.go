package strictjson

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Kinds of fault. errors.Is matches an *Error against them.
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
	// ErrBounds: the text exceeds a bound of its reader.
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
	Cause  error // encoding/json's error, for a syntax error in Check or Unmarshal; may be nil
}

func (e *Error) Error() string {
	found := "json: found " + e.Found
	switch { // a syntax error with a Cause has the message of encoding/json
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

// quotedMax is the maximum number of bytes of a text in an error.
const quotedMax = 80

// quote quotes a part of the text. It shortens the part, which may have megabytes.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(s[:quotedMax]) + "…"
	}
	return strconv.Quote(s)
}

// describe formats a plain value, or the bracket of an object or array, for an error.
func describe(value jsontext.Value) string {
	switch kind := value.Kind(); kind {
	case jsontext.KindString:
		text, _ := jsontext.AppendUnquote(nil, value) // it cannot fail: the value was read
		return quote(string(text))
	case jsontext.KindNumber:
		return string(value[:min(len(value), quotedMax)])
	default:
		return describeKind(kind)
	}
}

// kinds maps kinds of values to words for errors. For a missing kind, such as null, String returns
// the word.
var kinds = map[jsontext.Kind]string{
	jsontext.KindBeginObject: "an object",
	jsontext.KindEndObject:   "the end of an object",
	jsontext.KindBeginArray:  "an array",
	jsontext.KindEndArray:    "the end of an array",
	jsontext.KindString:      "a string",
	jsontext.KindNumber:      "a number",
}

func describeKind(kind jsontext.Kind) string { return cmp.Or(kinds[kind], kind.String()) }
