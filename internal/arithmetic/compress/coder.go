package compress

import "math/bits"

// The arithmetic coder: a text is a number in [0, 1), written in base 256. The interval [low, low +
// width) of the numbers that begin with the symbols so far is held as 64-bit fixed-point numbers,
// and every symbol narrows it to its share (J. Rissanen, G. Langdon, Arithmetic Coding, 1979; with
// integers and a byte at a time: G. Martin, Range encoding, 1979). A carry out of low goes into the
// bytes that were written before.

// widthMin is the width below which a byte is written and the interval moves up by 8 bits. Shares
// of fewer than 2^33 parts are so exact to 2^-23 of themselves.
const widthMin = 1 << 56

// ahead is how many bytes a decoder reads before it needs them: at the end of a text it has asked
// for at most so many that were never written.
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

// carry adds 1 to the number that the bytes so far are. It is less than 1 then, too: some byte is
// less than 255.
func (e *encoder) carry() {
	for i := len(e.out) - 1; ; i-- {
		e.out[i]++
		if e.out[i] != 0 {
			return
		}
	}
}

// end writes the shortest number in the interval, and returns all bytes. As the interval is at
// least widthMin wide, one byte is enough, and what follows it is taken for zeros.
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
	at          int    // bytes read, also of those behind the end, which are 0
	code, width uint64 // the number, less low
}

func newDecoder(in []byte) *decoder {
	d := &decoder{in: in, width: 1<<64 - 1}
	for range 8 {
		d.shift()
	}
	return d
}

// part says in which of total parts of the interval the number is. The caller tells narrow which
// symbol that is.
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

// beyond is how many bytes behind the end were read; negative: so many were not.
func (d *decoder) beyond() int { return d.at - len(d.in) }
