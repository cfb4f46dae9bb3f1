package tokenizer

// countPiece is how many tokens are held at once to be counted.
const countPiece = 1024

// Count is the number of tokens of a text. A word at its end counts, the end of its last line does
// only if the text has it.
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
		n += len(tokens.IDs) - 1 // the end of a line, which the text has not
	}
	return n
}
