package compress

import "math/bits"

// The arithmetic coder. A text is a number in [0, 1), written in base 256. The numbers that begin
// with the symbols so far form an interval [low, low + width), held as 64-bit fixed-point numbers.
// Every symbol narrows the interval to its share (J. Rissanen, G. Langdon, Arithmetic Coding,
// 1979). This coder uses integers and writes a byte at a time (G. Martin, Range encoding, 1979). A
// carry out of low is added to bytes that are already written.

// widthMin is the minimum width of the interval. Below it, a byte is written and the interval is
// scaled by 8 bits. A share of fewer than 2^33 parts is then exact within 2^-23 of its size.
const widthMin = 1 << 56

// ahead is the number of bytes that a decoder reads before it needs them. So at the end of a text,
// a decoder has read at most this number of bytes beyond the end of the file.
const ahead = 7

// encoder writes symbols to out.
type encoder struct {
	low, width uint64
	out        []byte
}

func newEncoder() *encoder { return &encoder{width: 1<<64 - 1} }

// encode narrows the interval to the share of a symbol: parts [from, from+size) of total.
func (e *encoder) encode(from, size, total uint64) {
	part := e.width / total
	var carry uint64
	e.low, carry = bits.Add64(e.low, part*from, 0)
	if carry != 0 {
		e.carry()
	}
	for e.width = part * size; e.width < widthMin; e.width <<= 8 {
		e.out = append(e.out, byte(e.low>>56))
		e.low <<= 8
	}
}

// carry adds 1 to the number that the written bytes form. The number stays below 1, so at least one
// byte is below 255.
func (e *encoder) carry() {
	for i := len(e.out) - 1; ; i-- {
		e.out[i]++
		if e.out[i] != 0 {
			return
		}
	}
}

// end writes the shortest number in the interval, and returns all bytes. The interval is at least
// widthMin wide, so one byte is enough: the decoder reads zeros after the last byte.
func (e *encoder) end() []byte {
	top, carry := bits.Add64(e.low, widthMin-1, 0)
	if carry != 0 {
		e.carry()
	}
	return append(e.out, byte(top>>56))
}

// decoder reads symbols from in.
type decoder struct {
	in          []byte
	at          int    // number of bytes read, including zeros after the end of in
	code, width uint64 // code is the coded number minus low
}

func newDecoder(in []byte) *decoder {
	d := &decoder{in: in, width: 1<<64 - 1}
	for range 8 {
		d.shift()
	}
	return d
}

// part returns the part of the interval, of total parts, that contains the number. The caller must
// pass the symbol of that part to narrow.
func (d *decoder) part(total uint64) uint64 {
	return min(d.code/(d.width/total), total-1)
}

// narrow narrows the interval as encode does.
func (d *decoder) narrow(from, size, total uint64) {
	part := d.width / total
	d.code -= part * from
	for d.width = part * size; d.width < widthMin; d.width <<= 8 {
		d.shift()
	}
}

func (d *decoder) shift() {
	var next byte
	if d.at < len(d.in) {
		next = d.in[d.at]
	}
	d.at++
	d.code = d.code<<8 | uint64(next)
}

// beyond returns the number of bytes read beyond the end of in. A negative number counts the bytes
// that are still unread.
func (d *decoder) beyond() int { return d.at - len(d.in) }
