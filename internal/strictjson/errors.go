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
	// ErrUTF8: the text is not UTF-8, which JSON is.
	ErrUTF8 = errors.New("not UTF-8")
	// ErrSurrogate: an escape \uD800 to \uDFFF is not one of a pair, and so no character.
	ErrSurrogate = errors.New("half of a surrogate pair")
	// ErrDuplicate: an object has a name twice.
	ErrDuplicate = errors.New("a name given twice")
	// ErrUnknown: an object has a name that the format does not have.
	ErrUnknown = errors.New("an unknown name")
	// ErrMissing: an object lacks a name that the format asks for.
	ErrMissing = errors.New("a missing name")
	// ErrValue: a value is sound JSON and not what the format asks for.
	ErrValue = errors.New("a value that does not fit")
	// ErrBounds: the text has more of something than its reader takes.
	ErrBounds = errors.New("out of bounds")
)

// Error says where a text is wrong, what was found there and what was expected.
type Error struct {
	// of the byte where the fault begins, from 0; a text that ends too early has its length
	Offset int
	Path   string // of the field, "keys[3].expires"; "" is the whole text
	Found  string
	Want   string
	Kind   error // one of the Err variables
	Cause  error // if there is one: of a fault of syntax, in Check and Unmarshal, encoding/json's
}

func (e *Error) Error() string {
	found := "json: found " + e.Found
	switch { // the words of encoding/json, where it has some
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

// quotedMax is the most bytes of a text that an error repeats.
const quotedMax = 80

// quote quotes a part of the text, cut short: it may have megabytes.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(s[:quotedMax]) + "…"
	}
	return strconv.Quote(s)
}

// describe writes a plain value, or the bracket of an object or array, as an error has it.
func describe(value jsontext.Value) string {
	switch kind := value.Kind(); kind {
	case jsontext.KindString:
		text, _ := jsontext.AppendUnquote(nil, value) // an error cannot be: the value was read
		return quote(string(text))
	case jsontext.KindNumber:
		return string(value[:min(len(value), quotedMax)])
	default:
		return describeKind(kind)
	}
}

// kinds are values in words; others are their own.
var kinds = map[jsontext.Kind]string{
	jsontext.KindBeginObject: "an object",
	jsontext.KindEndObject:   "the end of an object",
	jsontext.KindBeginArray:  "an array",
	jsontext.KindEndArray:    "the end of an array",
	jsontext.KindString:      "a string",
	jsontext.KindNumber:      "a number",
}

func describeKind(kind jsontext.Kind) string { return cmp.Or(kinds[kind], kind.String()) }
