package tokenizer

import "fmt"

// Bytes is the byte-level tokenizer. It has 256 ids; an id is the byte's value. It accepts any
// bytes. The zero value is ready.
type Bytes struct{}

// Vocab returns the number of ids; they are 0 to Vocab-1.
func (Bytes) Vocab() int { return 256 }

// Start returns a newline, the token before the first token of a stream: streams begin at the
// beginning of a line.
func (Bytes) Start() int32 { return '\n' }

// Encode appends the ids of text to dst.
func (Bytes) Encode(dst []int32, text []byte) []int32 {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst
}

// Decode appends the text of ids to dst. It panics at an id outside the vocabulary: ids must come
// from Encode or from a model with the same vocabulary.
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

// Chars returns the number of characters of UTF-8 that begin in the text.
func (Bytes) Chars(text []byte) int { return chars(text) }

// Next adds the tokens of text, at most room of them, to t, and returns the rest of the text.
// Every byte is a token, so nothing is ever pending.
func (Bytes) Next(t *Tokens, _ *Pending, text []byte, room int) (rest []byte) {
	n := min(room, len(text))
	for i, b := range text[:n] {
		t.add(int32(b), 1, int64(chars(text[i:i+1])))
	}
	return text[n:]
}

// End adds nothing: nothing is pending, and the end of a text is no token.
func (Bytes) End(*Tokens, *Pending) {}

// Spell appends the byte of an id. It panics at an id outside the vocabulary.
func (t Bytes) Spell(dst []byte, _, id int32) []byte { return t.Decode(dst, []int32{id}) }

// Unknown returns -1: all bytes are known.
func (Bytes) Unknown() int32 { return -1 }

// SpellMax returns 1.
func (Bytes) SpellMax() int { return 1 }

// PendingMax returns 0: nothing is ever pending.
func (Bytes) PendingMax() int { return 0 }

// DueMax returns 0: nothing is ever due.
func (Bytes) DueMax() int { return 0 }

// Symbols returns nil: the vocabulary of bytes is the same for all models.
func (Bytes) Symbols() []byte { return nil }
