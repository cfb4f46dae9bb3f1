package api

// TextBytes returns the exact bytes of the sampled text.
func (c *Completion) TextBytes() []byte { return textBytes(c.Text, c.TextBase64) }

// TextBytes returns the exact bytes of the piece.
func (e *PieceEvent) TextBytes() []byte { return textBytes(e.Text, e.TextBase64) }

// TextBytes returns the exact bytes of the chunk's text; nil if the event has no text.
func (e *ChunkEvent) TextBytes() []byte {
	if e.Text == nil {
		return nil
	}
	return textBytes(*e.Text, e.TextBase64)
}

// TextBytes returns the exact bytes of the line without its newline; nil if the event has no text.
func (e *LineEvent) TextBytes() []byte {
	if e.Text == nil {
		return nil
	}
	return textBytes(*e.Text, e.TextBase64)
}

// textBytes returns the exact bytes of a text. Parameter bytes, which is text_base64 in the answer,
// is set only if the text is not valid UTF-8.
func textBytes(text string, bytes []byte) []byte {
	if bytes != nil {
		return bytes
	}
	return []byte(text)
}
