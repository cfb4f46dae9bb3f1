// Package strictjson reads JSON that must match its format exactly. It refuses repeated and unknown
// names in objects. Every error has the offset of the faulty byte and the path of its field.
//
// encoding/json is more tolerant. It uses the last of several equal names, ignores case in names,
// and replaces lone surrogates and invalid UTF-8. This package uses the grammar of jsontext, a part
// of the second version of encoding/json.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// Check checks that a text is exactly one JSON value in UTF-8, with optional white space around it.
// An object with a repeated name is a fault. The error is an *Error.
func Check(text []byte) error {
	s := NewReader("text", text)
	err := s.checkUTF8()
	for err == nil {
		if _, err = s.token("a value"); s.dec.StackDepth() == 0 {
			break
		}
	}
	if err == nil {
		err = s.end()
	}
	return withCause(text, err)
}

// Unmarshal decodes a text, like encoding/json, into the variable to which the pointer into refers.
// The text must pass Check. Its names must be those of the variable's type, in the same case. After
// an error the variable may be partly changed. The error is an *Error. It wraps io.ErrUnexpectedEOF
// if the text ends too early.
func Unmarshal(text []byte, into any) error {
	s := NewReader("text", text)
	err := s.checkUTF8()
	if err == nil {
		err = jsonv2.UnmarshalDecode(s.dec, into, jsonv2.RejectUnknownMembers(true))
		if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
			return s.misfit(semantic)
		}
	}
	// Check finds the fault that UnmarshalDecode found, or a fault after the value.
	if fault := Check(text); fault != nil {
		err = fault
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == ErrSyntax && e.Offset == len(text) {
		e.Cause = io.ErrUnexpectedEOF // json.Decoder also returns this error
	}
	return err
}

func (s *scanner) misfit(err *jsonv2.SemanticError) *Error {
	e := &Error{Offset: int(err.ByteOffset), Path: path(s.dec, err.JSONPointer),
		Want: describeType(err.GoType), Kind: ErrValue}
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		e.Found, e.Want, e.Kind = "unknown field "+quote(err.JSONPointer.LastToken()),
			oneOf(fields(err.GoType)), ErrUnknown
	case len(err.JSONValue) > 0:
		e.Found = describe(err.JSONValue)
	default:
		e.Found = describeKind(err.JSONKind)
	}
	if err.Err != nil && e.Kind == ErrValue {
		e.Cause = err.Err
	}
	return e
}

func describeType(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("an integer of %d bits without a sign", t.Bits())
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("a number of %d bits", t.Bits())
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a value for " + t.String()
}

// fields returns the names that a JSON object for the struct type t may have.
func fields(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || tag == "-" || field.Anonymous && tag == "" {
			continue
		}
		if tag == "" {
			tag = field.Name
		}
		names = append(names, tag)
	}
	return names
}

// withCause sets the cause of a syntax error to the error of encoding/json, because users know its
// messages.
func withCause(text []byte, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == ErrSyntax && e.Cause == nil {
		var value json.RawMessage
		e.Cause = json.Unmarshal(text, &value)
	}
	return err
}
