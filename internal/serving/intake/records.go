package intake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/follow"
)

// Fields are the paths of the values that form a record's line. Spaces separate the values in the
// line.
type Fields [][]string

var messageFields = []string{"message", "log", "msg", "MESSAGE", "body"}

// ParseFields parses a list of JSON pointers (RFC 6901) or names, separated by commas.
func ParseFields(text string) (f Fields) {
	for one := range strings.SplitSeq(text, ",") {
		f = append(f, follow.ParseField(one))
	}
	return f
}

// Records parses consecutive JSON values, with or without line breaks between them. Each value is a
// record; if the value is an array, each element is a record. A record's line contains the values
// of the fields f. If f is empty, the line is the first string among messageFields. If the record
// has none of these fields, the line is the whole record. On an error, Records returns no lines.
func Records(body []byte, f Fields) (text []byte, records int, err error) {
	add := func(v value) error {
		line, err := f.line(v)
		if err == nil {
			text, err = appendLineOf(text, line, v)
		}
		records++
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		v := value{where: where("record", records)}
		of := value{where: v.where}
		switch err := dec.Decode(&v.text); {
		case err == io.EOF:
			return text, records, nil
		case err == io.ErrUnexpectedEOF:
			of.at = len(body)
			return nil, 0, lineFault(body, of.fault(err))
		case err != nil:
			return nil, 0, lineFault(body, of.fault(err))
		}
		v.at = int(dec.InputOffset()) - len(v.text)
		if v.text[0] == '[' {
			err = elements(v, func(v value) error {
				v.where = where("record", records)
				return add(v)
			})
		} else {
			err = add(v)
		}
		if err != nil {
			return nil, 0, lineFault(body, err)
		}
	}
}

func lineFault(body []byte, err error) error {
	e, ok := err.(*Error)
	if ok {
		e.Where += fmt.Sprintf(", line %d", 1+bytes.Count(body[:min(e.Byte, len(body))],
			[]byte{'\n'}))
	}
	return err
}

func (f Fields) line(v value) ([]byte, error) {
	if text, ok := textOf(v.text); ok {
		return text, nil
	}
	if len(f) == 0 {
		var object map[string]json.RawMessage
		if v.text[0] == '{' {
			if err := v.into(&object); err != nil {
				return nil, err
			}
		}
		for _, name := range messageFields {
			if text, ok := textOf(object[name]); ok {
				return text, nil
			}
		}
		return compact(v.text), nil
	}
	if len(v.text) > RecordBytesMax {
		return nil, v.into(nil)
	}
	var parts [][]byte
	for _, path := range f {
		if found := follow.LookUp(v.text, path); found != nil && string(found) != "null" {
			text, ok := textOf(found)
			if !ok {
				text = compact(found)
			}
			parts = append(parts, text)
		}
	}
	if parts == nil {
		return compact(v.text), nil
	}
	return bytes.Join(parts, []byte{' '}), nil
}

func textOf(raw json.RawMessage) (text []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err == nil
}

func compact(raw json.RawMessage) []byte {
	var short bytes.Buffer
	if err := json.Compact(&short, raw); err != nil {
		return slices.Clone(raw)
	}
	return short.Bytes()
}

// Lines adds a newline to a non-empty body that does not end with a newline. It also returns the
// number of lines.
func Lines(body []byte) (text []byte, lines int) {
	if len(body) > 0 && body[len(body)-1] != '\n' {
		body = append(body, '\n')
	}
	return body, bytes.Count(body, []byte{'\n'})
}

// BeginsText reports whether a JSON object begins with the member "text" or "base64". Then the
// object is a text to feed, not a record.
func BeginsText(begin []byte) bool {
	const space = " \t\r\n"
	begin, ok := bytes.CutPrefix(bytes.TrimLeft(begin, space), []byte{'{'})
	begin = bytes.TrimLeft(begin, space)
	return ok && (bytes.HasPrefix(begin, []byte(`"text"`)) ||
		bytes.HasPrefix(begin, []byte(`"base64"`)))
}

// IsRecords reports whether a JSON body consists of records, for routes that also accept other
// JSON. Records are an array, or an object with a string in one of messageFields.
func IsRecords(body []byte) bool {
	switch body = bytes.TrimLeft(body, " \t\r\n"); {
	case len(body) == 0:
		return false
	case body[0] == '[':
		return true
	}
	v := value{}
	if json.NewDecoder(bytes.NewReader(body)).Decode(&v.text) != nil || v.text[0] != '{' {
		return false
	}
	var object map[string]json.RawMessage
	if v.into(&object) != nil {
		return false
	}
	for _, name := range messageFields {
		if _, ok := textOf(object[name]); ok {
			return true
		}
	}
	return false
}
