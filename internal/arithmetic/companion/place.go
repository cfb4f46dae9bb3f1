package companion

// place is where a text has come to: what contexts are made of.
type place struct {
	Bytes   uint64    // of the text
	Last    [3]uint64 // its last 24 bytes, the last of them lowest
	Word    uint32    // hash of the word under way; 0: there is none
	Column  uint32    // bytes of the line under way
	Width   uint32    // bytes of the line before it, with its end
	Field   uint32    // separators of fields in the line under way
	Matches [matchCount]match
}

// step goes on behind a byte, but for the matches.
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

// order is the last n bytes, up to eight.
func (p *place) order(n int) uint64 { return p.Last[0] & (1<<(8*n) - 1) }

// recent is a hash of the last n bytes, of as many as a match is found by.
func (p *place) recent(n int) uint32 {
	h := p.order(8) * 0x9e3779b97f4a7c15
	if n > 8 {
		h ^= p.Last[1]*0xc2b2ae3d27d4eb4f ^ (p.Last[2]&(1<<(8*(n-16))-1))*0x165667b19e3779f9
		h *= 0x9e3779b97f4a7c15
	}
	return uint32(h >> 32)
}
