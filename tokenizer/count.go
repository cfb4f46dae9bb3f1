package tokenizer

// countPiece is the number of tokens that Count processes at once.
const countPiece = 1024

// Count returns the number of tokens of a text. A word at the end counts. The end of the last
// line counts only if the text has a newline there.
func Count(t Tokenizer, text []byte) (n int) {
	if _, ok := t.(Bytes); ok {
		return len(text)
	}
	tokens, pending := NewTokens(min(countPiece, len(text))), Pending{}
	for more := true; more; {
		tokens.Reset()
		text = t.Next(&tokens, &pending, text, countPiece)
		n += len(tokens.IDs)
		more = len(tokens.IDs) == countPiece
	}
	if len(pending.Word) > 0 {
		tokens.Reset()
		t.End(&tokens, &pending)
		n += len(tokens.IDs) - 1 // the end of a line that the text lacks
	}
	return n
}
