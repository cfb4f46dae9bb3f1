package tokenizer

import "fmt"

// Bytes is the byte-level tokenizer: the id of a token is the value of its byte, 0 to 255. The zero
// value is ready to use.
type Bytes struct{}

// Vocab returns the number of ids, 256.
func (Bytes) Vocab() int { return 256 }

// Start returns a newline, which the model sees before the first token of a stream. So a stream
// begins at the beginning of a line.
func (Bytes) Start() int32 { return '\n' }

// Encode appends the ids of text to dst.
func (Bytes) Encode(dst []int32, text []byte) []int32 {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst
}

// Decode appends the text of ids to dst. It panics if an id is outside 0 to 255.
func (t Bytes) Decode(dst []byte, ids []int32) []byte {
	for i, id := range ids {
		if id < 0 || int(id) >= t.Vocab() {
			panic(fmt.Sprintf("tokenizer: id %d at position %d, expected 0 to %d", id, i,
				t.Vocab()-1))
		}
		dst = append(dst, byte(id))
	}
	return dst
}

// Chars returns the number of UTF-8 characters that begin in text.
func (Bytes) Chars(text []byte) int { return chars(text) }

// Next adds the tokens of text to t, at most room tokens, and returns the rest of the text. Nothing
// is ever pending, because every byte is a complete token.
func (Bytes) Next(t *Tokens, _ *Pending, text []byte, room int) (rest []byte) {
	n := min(room, len(text))
	for i, b := range text[:n] {
		t.add(int32(b), 1, int64(chars(text[i:i+1])))
	}
	return text[n:]
}

// End does nothing, because no bytes are pending.
func (Bytes) End(*Tokens, *Pending) {}

// Spell appends the byte of token id to dst. It panics if id is outside 0 to 255.
func (t Bytes) Spell(dst []byte, _, id int32) []byte { return t.Decode(dst, []int32{id}) }

// Unknown returns -1, because every byte is in the vocabulary.
func (Bytes) Unknown() int32 { return -1 }

// SpellMax returns 1: a token is one byte.
func (Bytes) SpellMax() int { return 1 }

// PendingMax returns 0, because every byte is a complete token.
func (Bytes) PendingMax() int { return 0 }

// DueMax returns 0, because no complete token is ever pending.
func (Bytes) DueMax() int { return 0 }

// Symbols returns nil: the vocabulary of bytes is the same for all models.
func (Bytes) Symbols() []byte { return nil }
