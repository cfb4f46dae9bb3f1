package compress

import "math/bits"

// The arithmetic coder (J. Rissanen, G. Langdon, Arithmetic Coding, 1979). A compressed text is a
// number in [0, 1), written in base 256. The numbers that represent texts with the same beginning
// form an interval [low, low + width), in 64-bit fixed-point arithmetic. Every symbol narrows the
// interval to the symbol's share. This coder uses integers and writes one byte at a time (G.
// Martin, Range encoding, 1979). If low overflows, the carry is added to bytes that are already
// written.

// widthMin is the minimum width of the interval. If the interval is narrower, the coder writes a
// byte and scales the interval by 8 bits. With a total of fewer than 2^33 parts, the relative
// rounding error of a share is at most 2^-23.
const widthMin = 1 << 56

// ahead is the number of bytes that a decoder reads in advance. After the last symbol, the decoder
// has read at most this number of bytes beyond the end of the file.
const ahead = 7

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

// carry adds 1 to the last written byte, with carries to the bytes before it. The coded number
// stays below 1, so at least one byte is below 255.
func (e *encoder) carry() {
	for i := len(e.out) - 1; ; i-- {
		e.out[i]++
		if e.out[i] != 0 {
			return
		}
	}
}

// end writes one byte, which completes the shortest number in the interval, and returns all written
// bytes. One byte is enough because the interval is at least widthMin wide and the decoder reads
// zeros after the last byte.
func (e *encoder) end() []byte {
	top, carry := bits.Add64(e.low, widthMin-1, 0)
	if carry != 0 {
		e.carry()
	}
	return append(e.out, byte(top>>56))
}

type decoder struct {
	in          []byte
	at          int
	code, width uint64 // the coded number minus low, and the interval's width
}

func newDecoder(in []byte) *decoder {
	d := &decoder{in: in, width: 1<<64 - 1}
	for range 8 {
		d.shift()
	}
	return d
}

// part divides the interval into total parts and returns the index of the part that contains the
// coded number. The caller then calls narrow with the share of the symbol that contains the part.
func (d *decoder) part(total uint64) uint64 {
	return min(d.code/(d.width/total), total-1)
}

// narrow narrows the interval to parts [from, from+size) of total, as the method encode does.
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

// beyond returns the number of bytes that the decoder read after the end of its input. If n bytes
// are unread, the result is -n.
func (d *decoder) beyond() int { return d.at - len(d.in) }
