package tokenizer

const countPiece = 1024

// Count returns the number of tokens of a text, including an unfinished last word. The end of the
// last line is a token only if the text ends with a newline.
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
		n += len(tokens.IDs) - 1 // End adds the end of a line, which the text does not have
	}
	return n
}
