package intake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Messages are parsed in place, without an object for each field. Otherwise a message could need a
// hundred times its own size in memory.

type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // content of a field of BytesType
	value  uint64 // content of the other types
	at     int    // position in the body, in bytes
}

var errDepth = errors.New("values are nested too deeply")

// fields visits the fields of a message. The parameter `at` is the message's position
// in the body.
func fields(message []byte, at int, visit func(f field) error) error {
	for rest := message; len(rest) > 0; {
		f := field{at: at + len(message) - len(rest)}
		number, kind, n := protowire.ConsumeTag(rest)
		if n >= 0 {
			rest = rest[n:]
			f.number, f.kind = number, kind
			switch kind {
			case protowire.BytesType:
				f.bytes, n = protowire.ConsumeBytes(rest)
				if n >= 0 {
					f.at = at + len(message) - len(rest) + n - len(f.bytes)
				}
			case protowire.VarintType:
				f.value, n = protowire.ConsumeVarint(rest)
			case protowire.Fixed64Type:
				f.value, n = protowire.ConsumeFixed64(rest)
			default:
				n = protowire.ConsumeFieldValue(number, kind, rest)
			}
		}
		if n < 0 {
			what := "not valid protobuf for this protocol: " + protowire.ParseError(n).Error()
			return &Error{Byte: f.at, What: what}
		}
		rest = rest[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// isMessage reports whether a field has this number and contains a message or a text.
func (f *field) isMessage(number protowire.Number) bool {
	return f.number == number && f.kind == protowire.BytesType
}

func keyValue(message []byte, at int) (key string, value []byte, valueAt int, err error) {
	err = fields(message, at, func(f field) error {
		switch {
		case f.isMessage(1):
			key = string(f.bytes)
		case f.isMessage(2):
			value, valueAt = f.bytes, f.at
		}
		return nil
	})
	return key, value, valueAt, err
}

// appendValue appends an AnyValue of OTLP. Text and bytes at depth 0 are appended unchanged, and
// everything else as JSON.
func appendValue(to, message []byte, at, depth int) (_ []byte, err error) {
	err = fields(message, at, func(f field) (err error) {
		switch {
		case f.isMessage(1) && depth == 0:
			to = append(to, f.bytes...)
		case f.isMessage(1):
			to = appendText(to, string(f.bytes))
		case f.number == 2 && f.kind == protowire.VarintType:
			to = strconv.AppendBool(to, f.value != 0)
		case f.number == 3 && f.kind == protowire.VarintType:
			to = strconv.AppendInt(to, int64(f.value), 10)
		case f.number == 4 && f.kind == protowire.Fixed64Type:
			to = appendFloat(to, math.Float64frombits(f.value))
		case f.isMessage(5), f.isMessage(6):
			to, err = appendValues(to, f, depth+1)
		case f.isMessage(7) && depth == 0:
			to = append(to, f.bytes...)
		case f.isMessage(7):
			to = appendText(to, base64.StdEncoding.EncodeToString(f.bytes))
		}
		return err
	})
	return to, err
}

func appendValues(to []byte, list field, depth int) (_ []byte, err error) {
	if depth > DepthMax {
		return to, &Error{Byte: list.at, What: errDepth.Error()}
	}
	open, end := byte('['), byte(']')
	if list.number == 6 {
		open, end = '{', '}'
	}
	to = append(to, open)
	err = fields(list.bytes, list.at, func(f field) (err error) {
		if !f.isMessage(1) {
			return nil
		}
		if to[len(to)-1] != open {
			to = append(to, ',')
		}
		value, at := f.bytes, f.at
		if list.number == 6 {
			var key string
			if key, value, at, err = keyValue(f.bytes, f.at); err != nil {
				return err
			}
			to = append(appendText(to, key), ':')
		}
		before := len(to)
		if to, err = appendValue(to, value, at, depth); len(to) == before {
			to = append(to, "null"...)
		}
		return err
	})
	return append(to, end), err
}

// appendText appends a text as a JSON string, in which <, > and & stay as they are.
func appendText(to []byte, text string) []byte {
	all := bytes.NewBuffer(to)
	e := json.NewEncoder(all)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can always be written as JSON
	}
	return bytes.TrimSuffix(all.Bytes(), []byte{'\n'})
}

// appendFloat appends a number as JSON. Infinities and NaN become strings, because JSON has no such
// numbers.
func appendFloat(to []byte, x float64) []byte {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return appendText(to, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return strconv.AppendFloat(to, x, 'g', -1, 64)
}
