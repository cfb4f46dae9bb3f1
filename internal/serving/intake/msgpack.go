package intake

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// MessagePack parses records in MessagePack
// (https://github.com/msgpack/msgpack/blob/master/spec.md), as Fluent Bit sends them. Each value of
// the body is a record, or an array of a time and a record.
func MessagePack(body []byte, f Fields) (text []byte, records int, err error) {
	p := packed{body: body}
	for p.at < len(body) {
		begin := p.at
		p.json, p.record = p.json[:0], -1
		p.value(0)
		if p.fault != "" {
			return nil, 0, &Error{p.at, where("record", records), p.fault}
		}
		v := value{p.json, begin, where("record", records)}
		if p.record >= 0 {
			v.text = p.json[p.record:p.end]
		}
		line, err := f.line(v)
		if err != nil {
			return nil, 0, err
		}
		if text, err = appendLineOf(text, line, v); err != nil {
			return nil, 0, err
		}
		records++
	}
	return text, records, nil
}

type packed struct {
	body  []byte
	at    int
	json  []byte
	fault string

	record, end int // the record is json[record:end], or all of json if record is -1
}

func (p *packed) take(n int) []byte {
	if p.fault == "" && n > len(p.body)-p.at {
		p.fault = fmt.Sprintf("the body ends within a value that needs %d more bytes",
			n-len(p.body)+p.at)
	}
	if p.fault != "" {
		return nil
	}
	p.at += n
	return p.body[p.at-n : p.at]
}

func (p *packed) number(bytes int) (n uint64) {
	var raw [8]byte
	copy(raw[8-bytes:], p.take(bytes))
	return binary.BigEndian.Uint64(raw[:])
}

func (p *packed) value(depth int) {
	if depth > DepthMax {
		p.fault = errDepth.Error()
	}
	p.room(1)
	head := p.take(1)
	if head == nil {
		return
	}
	switch c := head[0]; {
	case c <= 0x7f:
		p.json = strconv.AppendUint(p.json, uint64(c), 10)
	case c <= 0x8f:
		p.many(int(c&0x0f), true, depth)
	case c <= 0x9f:
		p.many(int(c&0x0f), false, depth)
	case c <= 0xbf:
		p.text(int(c & 0x1f))
	case c >= 0xe0:
		p.json = strconv.AppendInt(p.json, int64(int8(c)), 10)
	case c == 0xc0:
		p.json = append(p.json, "null"...)
	case c == 0xc2, c == 0xc3:
		p.json = strconv.AppendBool(p.json, c == 0xc3)
	case c >= 0xc4 && c <= 0xc6:
		p.binary(p.length(1 << (c - 0xc4)))
	case c >= 0xc7 && c <= 0xc9:
		p.extension(p.length(1 << (c - 0xc7)))
	case c == 0xca:
		p.json = appendFloat(p.json, float64(math.Float32frombits(uint32(p.number(4)))))
	case c == 0xcb:
		p.json = appendFloat(p.json, math.Float64frombits(p.number(8)))
	case c >= 0xcc && c <= 0xcf:
		p.json = strconv.AppendUint(p.json, p.number(1<<(c-0xcc)), 10)
	case c >= 0xd0 && c <= 0xd3:
		bytes := 1 << (c - 0xd0)
		p.json = strconv.AppendInt(p.json, int64(p.number(bytes)<<(64-8*bytes))>>(64-8*bytes), 10)
	case c >= 0xd4 && c <= 0xd8:
		p.extension(1 << (c - 0xd4))
	case c >= 0xd9 && c <= 0xdb:
		p.text(p.length(1 << (c - 0xd9)))
	case c == 0xdc, c == 0xdd:
		p.many(p.length(2<<(c-0xdc)), false, depth)
	case c == 0xde, c == 0xdf:
		p.many(p.length(2<<(c-0xde)), true, depth)
	default:
		p.at--
		p.fault = fmt.Sprintf("0x%02x does not begin a MessagePack value", c)
	}
}

// length reads a length that is stored in the given number of bytes. A length that exceeds the rest
// of the body is a fault, because each counted value needs at least one byte.
func (p *packed) length(bytes int) int {
	n := p.number(bytes)
	if left := uint64(len(p.body) - p.at); p.fault == "" && n > left {
		p.fault = fmt.Sprintf("a length of %d, but the body has %d bytes left", n, left)
	}
	if p.fault != "" {
		return 0
	}
	return int(n)
}

// text converts a string of the given length in bytes. Its JSON form is at least as long, and at
// most six times as long plus the quotes.
func (p *packed) text(bytes int) {
	if p.room(bytes) {
		p.json = appendText(p.json, string(p.take(bytes)))
	}
}

func (p *packed) binary(bytes int) {
	if p.room(base64.StdEncoding.EncodedLen(bytes)) {
		p.json = appendText(p.json, base64.StdEncoding.EncodeToString(p.take(bytes)))
	}
}

// room reports whether the record's JSON can grow by the given number of bytes. Beyond
// RecordBytesMax, room sets the fault: a body could otherwise need many times its length in memory.
func (p *packed) room(bytes int) bool {
	if p.fault == "" && len(p.json)+bytes > RecordBytesMax {
		p.fault = fmt.Sprintf("a record of more than %d bytes as JSON", RecordBytesMax)
	}
	return p.fault == ""
}

// extension converts a value of an extension type to its bytes in base64. Fluent Bit sends times as
// values of the extension type 0.
func (p *packed) extension(bytes int) {
	p.take(1)
	p.binary(bytes)
}

func (p *packed) many(n int, isMap bool, depth int) {
	open, end := byte('['), byte(']')
	if isMap {
		open, end = '{', '}'
	}
	p.json = append(p.json, open)
	for i := 0; i < n && p.fault == ""; i++ {
		if i > 0 {
			p.json = append(p.json, ',')
		}
		if isMap {
			p.name(depth + 1)
			p.json = append(p.json, ':')
		}
		begin := len(p.json)
		p.value(depth + 1)
		if depth == 0 && !isMap && n == 2 && i == 1 && begin < len(p.json) && p.json[begin] == '{' {
			p.record, p.end = begin, len(p.json)
		}
	}
	p.json = append(p.json, end)
}

// name converts the key of a map to a JSON string. In MessagePack, a key may have any type.
func (p *packed) name(depth int) {
	begin := len(p.json)
	p.value(depth)
	if begin < len(p.json) && p.json[begin] != '"' {
		p.json = appendText(p.json[:begin], string(p.json[begin:]))
	}
}
