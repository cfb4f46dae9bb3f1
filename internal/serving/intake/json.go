package intake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// A JSON body is decoded one record at a time. If it were decoded as a whole, the values of a long
// body would need too much memory.

// value is a part of a JSON body; the zero value is a missing part.
type value struct {
	text  json.RawMessage
	at    int    // position in the body, in bytes
	where string // path in the body, such as "record 3"; empty for the whole body
}

func join(where, name string) string {
	if where == "" || name == "" {
		return where + name
	}
	return where + "." + name
}

func where(what string, n int) string { return fmt.Sprintf("%s %d", what, n+1) }

// fault converts an error of package json to an *Error with the position in the body.
func (v *value) fault(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &Error{v.at + int(syntax.Offset), v.where, "not JSON: " + syntax.Error()}
	case errors.As(err, &kind):
		return &Error{v.at + int(kind.Offset), join(v.where, kind.Field),
			"found a " + kind.Value + ", which is not allowed there"}
	}
	return &Error{v.at, v.where, err.Error()}
}

// validJSON returns nil if a body is a single JSON value, else an error with the position of the
// fault.
func validJSON(body []byte) error {
	var any struct{}
	err := json.Unmarshal(body, &any)
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return nil
	}
	if err != nil {
		return new(value).fault(err)
	}
	return nil
}

// large returns an error text if a value is too large to decode, else "". It counts objects and
// arrays by their opening brackets, including brackets within strings.
func (v *value) large() string {
	switch n := bytes.Count(v.text, []byte{'{'}) + bytes.Count(v.text, []byte{'['}); {
	case len(v.text) > RecordBytesMax:
		return fmt.Sprintf("the record has %d bytes, expected at most "+
			"%d", len(v.text), RecordBytesMax)
	case n > ValuesMax:
		return fmt.Sprintf("the record has %d objects and arrays, expected at most "+
			"%d", n, ValuesMax)
	}
	return ""
}

// into decodes a value by json.Unmarshal. It refuses values of more than RecordBytesMax bytes. If
// the value is missing or null, the target stays unchanged.
func (v *value) into(to any) error {
	if len(v.text) == 0 {
		return nil
	}
	if len(v.text) > RecordBytesMax {
		return &Error{v.at, v.where, fmt.Sprintf("%d bytes, expected at most %d", len(v.text),
			RecordBytesMax)}
	}
	if err := json.Unmarshal(v.text, to); err != nil {
		return v.fault(err)
	}
	return nil
}

// members visits the members of an object; null counts as an empty object.
func members(text []byte, at int, where string, visit func(name string, v value) error) error {
	return inside(value{text, at, where}, '{', func(dec *json.Decoder, v value) error {
		name, err := dec.Token()
		if err != nil {
			return v.fault(err)
		}
		member := value{where: join(v.where, name.(string))}
		if err := member.next(dec, v); err != nil {
			return err
		}
		return visit(name.(string), member)
	})
}

// elements visits the elements of an array. A missing value and null count as an empty array.
func elements(v value, visit func(v value) error) error {
	if len(v.text) == 0 {
		return nil
	}
	n := 0
	return inside(v, '[', func(dec *json.Decoder, v value) error {
		element := value{where: fmt.Sprintf("%s[%d]", v.where, n)}
		n++
		if err := element.next(dec, v); err != nil {
			return err
		}
		return visit(element)
	})
}

// inside calls visit for each element or member of a value; visit must read it from the decoder.
// The value must be null or begin with the delimiter open.
func inside(v value, open json.Delim, visit func(dec *json.Decoder, v value) error) error {
	dec := json.NewDecoder(bytes.NewReader(v.text))
	token, err := dec.Token()
	switch {
	case err != nil:
		return v.fault(err)
	case token == nil:
		return nil
	case token != open:
		return &Error{v.at, v.where, fmt.Sprintf("found %.40s, expected %s", v.text,
			map[json.Delim]string{
				'{': "an object", '[': "an array"}[open])}
	}
	for dec.More() {
		if err := visit(dec, v); err != nil {
			return err
		}
	}
	return nil
}

// next reads the decoder's next value into v. The parameter `of` is the value that contains v.
func (v *value) next(dec *json.Decoder, of value) error {
	if err := dec.Decode(&v.text); err != nil {
		return of.fault(err)
	}
	v.at = of.at + int(dec.InputOffset()) - len(v.text)
	return nil
}

// count is a protobuf integer in JSON: a number, or a string of digits.
type count uint64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(string(bytes.Trim(text, `"`)), 10, 64)
	if err != nil && string(text) != "null" && string(text) != `""` {
		return fmt.Errorf("found %.40s, expected a number of nanoseconds", text)
	}
	*c = count(n)
	return nil
}

type anyValue struct {
	String *string         `json:"stringValue"`
	Bool   *bool           `json:"boolValue"`
	Int    json.RawMessage `json:"intValue"` // a number or a string
	Double json.RawMessage `json:"doubleValue"`
	Array  *struct {
		Values []anyValue `json:"values"`
	} `json:"arrayValue"`
	List *struct {
		Values []jsonAttribute `json:"values"`
	} `json:"kvlistValue"`
	Bytes *string `json:"bytesValue"`
}

func (v *anyValue) empty() bool {
	return v.String == nil && v.Bool == nil && v.Int == nil && v.Double == nil && v.Array == nil &&
		v.List == nil && v.Bytes == nil
}

// append appends the value in the same form as appendValue. Values deeper than DepthMax become
// null.
func (v *anyValue) append(to []byte, depth int) []byte {
	switch {
	case v.String != nil && depth == 0:
		return append(to, *v.String...)
	case v.String != nil:
		return appendText(to, *v.String)
	case v.Bool != nil:
		return strconv.AppendBool(to, *v.Bool)
	case v.Int != nil:
		return append(to, bytes.Trim(v.Int, `"`)...)
	case v.Double != nil:
		if x, err := strconv.ParseFloat(string(bytes.Trim(v.Double, `"`)), 64); err == nil {
			return appendFloat(to, x)
		}
		return appendFloat(to, math.NaN())
	case v.Array != nil && depth < DepthMax:
		to = append(to, '[')
		for i := range v.Array.Values {
			if i > 0 {
				to = append(to, ',')
			}
			to = v.Array.Values[i].append(to, depth+1)
		}
		return append(to, ']')
	case v.List != nil && depth < DepthMax:
		to = append(to, '{')
		for i := range v.List.Values {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendText(to, v.List.Values[i].Key), ':')
			to = v.List.Values[i].Value.append(to, depth+1)
		}
		return append(to, '}')
	case v.Bytes != nil && depth == 0:
		if raw, err := base64.StdEncoding.DecodeString(*v.Bytes); err == nil {
			return append(to, raw...)
		}
		return append(to, *v.Bytes...)
	case v.Bytes != nil:
		return appendText(to, *v.Bytes)
	}
	return append(to, "null"...)
}
