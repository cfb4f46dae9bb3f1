package companion

// place is the position in a text, with all values that determine the contexts.
type place struct {
	Bytes   uint64
	Last    [3]uint64 // the last 24 bytes, with the newest byte in the lowest bits
	Word    uint32    // hash of the current word; 0 outside words
	Column  uint32
	Width   uint32 // number of bytes in the previous line, including its newline
	Field   uint32
	Matches [matchCount]match
}

func (p *place) step(b byte) {
	p.Last[2] = p.Last[2]<<8 | p.Last[1]>>56
	p.Last[1] = p.Last[1]<<8 | p.Last[0]>>56
	p.Last[0] = p.Last[0]<<8 | uint64(b)
	p.Bytes++
	p.Column++
	small := b
	if b >= 'A' && b <= 'Z' {
		small += 'a' - 'A'
	}
	switch {
	case small >= 'a' && small <= 'z', b >= '0' && b <= '9', b >= 0x80:
		p.Word = max(1, hash(p.Word, uint32(small)+1))
	default:
		p.Word = 0
	}
	switch b {
	case ',', ';', '\t', '|':
		p.Field++
	case '\n':
		p.Column, p.Width, p.Field = 0, p.Column, 0
	}
}

// order returns the last n bytes as an integer, for n at most eight.
func (p *place) order(n int) uint64 { return p.Last[0] & (1<<(8*n) - 1) }

// recent returns a hash of the last n bytes. n must be an element of matchLeast.
func (p *place) recent(n int) uint32 {
	h := p.order(8) * 0x9e3779b97f4a7c15
	if n > 8 {
		h ^= p.Last[1]*0xc2b2ae3d27d4eb4f ^ (p.Last[2]&(1<<(8*(n-16))-1))*0x165667b19e3779f9
		h *= 0x9e3779b97f4a7c15
	}
	return uint32(h >> 32)
}
