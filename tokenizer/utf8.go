package tokenizer

import "unicode/utf8"

// UTF8 cuts a stream of bytes into pieces at character borders, so that a reader never sees half
// a character. It holds back the beginning of a character, at most 3 bytes, until the character
// is complete or turns out to be invalid. Bytes that are invalid in UTF-8 pass at once,
// unchanged. The zero value is ready.
type UTF8 struct {
	held  [utf8.UTFMax - 1]byte
	count int
}

// Append appends the held bytes and then text to dst, without an incomplete character at the end.
// It holds back the bytes of this character.
func (u *UTF8) Append(dst, text []byte) []byte {
	start := len(dst)
	dst = append(u.Flush(dst), text...)
	whole := len(dst) - unfinished(dst[start:])
	u.count = copy(u.held[:], dst[whole:])
	return dst[:whole]
}

// Flush appends the held bytes to dst. Call it at the end of the stream.
func (u *UTF8) Flush(dst []byte) []byte {
	dst = append(dst, u.held[:u.count]...)
	u.count = 0
	return dst
}

// unfinished returns the size in bytes of the incomplete UTF-8 character at the end of text, or 0.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
