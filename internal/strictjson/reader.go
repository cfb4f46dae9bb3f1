package strictjson

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads one JSON text whose format is known. Each method reads the next value. If the value
// is of another kind, the method returns an *Error with its place. After an error the Reader must
// not be used.
type Reader struct {
	scanner
	utf8 error
}

// NewReader returns a Reader of a text. Error messages use the parameter name for the text:
// "header" gives "the end of the header".
func NewReader(name string, text []byte) *Reader {
	r := &Reader{scanner: scanner{name: name, text: text,
		dec: jsontext.NewDecoder(bytes.NewBuffer(text))}}
	r.utf8 = r.checkUTF8()
	return r
}

// Offset returns the offset of the first byte of the last token: a plain value, a name, or a
// bracket of an object or array.
func (r *Reader) Offset() int { return r.start }

// Path returns the path of the last value or name, as in "keys[3].expires".
func (r *Reader) Path() string { return r.here() }

// Misfit returns an error for the last value. The parameter `want` describes the value that was
// expected instead.
func (r *Reader) Misfit(want string) error {
	found := describe(jsontext.Value(r.text[r.start:r.dec.InputOffset()]))
	return &Error{Offset: r.start, Path: r.here(), Found: found, Want: want, Kind: ErrValue}
}

func (r *Reader) read(want string, kinds ...jsontext.Kind) (jsontext.Token, error) {
	if r.utf8 != nil {
		return jsontext.Token{}, r.utf8
	}
	token, err := r.token(want)
	if err == nil && !slices.Contains(kinds, token.Kind()) {
		err = r.Misfit(want)
	}
	return token, err
}

// Object reads an object. It calls the function member with every name, and member must read the
// value of that name. A repeated name is an error.
func (r *Reader) Object(member func(name string) error) error {
	if _, err := r.read("an object", jsontext.KindBeginObject); err != nil {
		return err
	}
	for {
		token, err := r.token("a string")
		if err != nil {
			return err
		}
		if token.Kind() == jsontext.KindEndObject {
			return nil
		}
		if err := member(token.String()); err != nil {
			return err
		}
	}
}

// Fields reads an object that must have all required names, may have the optional names, and must
// not have any other.
func (r *Reader) Fields(required, optional []string, member func(name string) error) error {
	known := slices.Concat(required, optional)
	var seen []string
	err := r.Object(func(name string) error {
		if !slices.Contains(known, name) {
			return &Error{Offset: r.start, Path: r.here(), Found: "unknown field " + quote(name),
				Want: oneOf(known), Kind: ErrUnknown}
		}
		seen = append(seen, name)
		return member(name)
	})
	if err != nil {
		return err
	}
	for _, name := range required {
		if !slices.Contains(seen, name) {
			path := r.here()
			if path != "" {
				path += "."
			}
			return &Error{Offset: r.start, Path: path + name, Found: "no field " + quote(name),
				Want: "one", Kind: ErrMissing}
		}
	}
	return nil
}

func oneOf(known []string) string { return fmt.Sprintf("one of %q", known) }

// Array reads an array. The parameter `most` is the maximum number of elements. Array calls the
// function element with the index of each element, and element must read that element.
func (r *Reader) Array(most int, element func(i int) error) error {
	if _, err := r.read("an array", jsontext.KindBeginArray); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if r.dec.PeekKind() == jsontext.KindEndArray {
			_, err := r.token("the end of the array")
			return err
		}
		if i == most {
			return &Error{Offset: r.next(), Path: path(r.dec, r.dec.StackPointer().Parent()),
				Found: fmt.Sprintf("more than %d elements", most), Want: "no more", Kind: ErrValue}
		}
		if err := element(i); err != nil {
			return err
		}
	}
}

// String reads a string.
func (r *Reader) String() (string, error) {
	token, err := r.read("a string", jsontext.KindString)
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// Number reads a number and returns its text; want describes the expected number.
func (r *Reader) Number(want string) (string, error) {
	token, err := r.read(want, jsontext.KindNumber)
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	token, err := r.read("true or false", jsontext.KindTrue, jsontext.KindFalse)
	if err != nil {
		return false, err
	}
	return token.Bool(), nil
}

// End checks that only white space follows the last value.
func (r *Reader) End() error {
	if r.utf8 != nil {
		return r.utf8
	}
	return r.end()
}
