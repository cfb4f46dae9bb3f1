package corpus

import (
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
)

// pieceBytes is how much text is counted or encoded between two reports of progress.
const pieceBytes = 1 << 20

// Count counts the words of all documents, each as a separate text. After each piece it calls the
// function `told` with the bytes read so far. If it returns an error, Count stops.
func (c *Corpus) Count(told func(bytes int) error) (*tokenizer.Counts, error) {
	counts, read := new(tokenizer.Counts), 0
	for _, d := range c.Documents {
		for text := d.Text; len(text) > 0; {
			n := min(len(text), pieceBytes)
			if err := counts.Add(text[:n]); err != nil {
				return nil, fmt.Errorf("%w: directory %s, file %s: %w", ErrData, c.Dir, d.Name, err)
			}
			text, read = text[n:], read+n
			if err := told(read); err != nil {
				return nil, err
			}
		}
		if err := counts.End(); err != nil {
			return nil, fmt.Errorf("%w: directory %s, file %s: %w", ErrData, c.Dir, d.Name, err)
		}
	}
	return counts, nil
}

// bytesOfToken is about the length of a word of prose, with the space before it.
const bytesOfToken = 5

// Encode converts the documents to tokens, each as a separate text. One document after another, the
// tokens, in 4 bytes each, replace the text. So text and tokens of all documents are never in
// memory together. Documents that are already encoded do not change. Encode reports progress
// through the function `told`, as Count does. After an error only some documents are encoded.
func (c *Corpus) Encode(tok tokenizer.Tokenizer, told func(bytes int) error) error {
	var tokens tokenizer.Tokens
	read := 0
	for i := range c.Documents {
		d := &c.Documents[i]
		if d.ids != nil {
			continue
		}
		var pending tokenizer.Pending
		ids := make([]int32, 0, len(d.Text)/bytesOfToken)
		for text := d.Text; len(text) > 0; {
			n := min(len(text), pieceBytes)
			tokens.Reset()
			// the rest becomes tokens with the next piece
			tok.Next(&tokens, &pending, text[:n], n+1+tok.DueMax())
			ids = append(ids, tokens.IDs...)
			text, read = text[n:], read+n
			if err := told(read); err != nil {
				return err
			}
		}
		tokens.Reset()
		tok.End(&tokens, &pending)
		d.ids, d.size, d.Text = append(ids, tokens.IDs...), d.Bytes(), nil
	}
	return nil
}

// Occurrences returns how often a token occurs in encoded documents.
func (c *Corpus) Occurrences(id int32) (n int) {
	for _, d := range c.Documents {
		for _, other := range d.ids {
			if other == id {
				n++
			}
		}
	}
	return n
}
