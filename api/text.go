package api

// TextBytes is the sampled text as it is.
func (c *Completion) TextBytes() []byte { return textBytes(c.Text, c.TextBase64) }

// TextBytes is the piece of text as it is.
func (e *PieceEvent) TextBytes() []byte { return textBytes(e.Text, e.TextBase64) }

// TextBytes is the text of the chunk as it is; nil if the event has no text.
func (e *ChunkEvent) TextBytes() []byte {
	if e.Text == nil {
		return nil
	}
	return textBytes(*e.Text, e.TextBase64)
}

// TextBytes is the text of the line as it is, without its newline; nil if the event has no text.
func (e *LineEvent) TextBytes() []byte {
	if e.Text == nil {
		return nil
	}
	return textBytes(*e.Text, e.TextBase64)
}

// textBytes is a text of which an answer has its bytes, too, where it is not UTF-8.
func textBytes(text string, bytes []byte) []byte {
	if bytes != nil {
		return bytes
	}
	return []byte(text)
}
