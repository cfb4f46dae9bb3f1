package corpus

import (
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
)

// pieceBytes is the number of bytes that are counted or encoded between two reports of progress.
const pieceBytes = 1 << 20

// Count counts the words of all documents; no word continues in the next document. After each piece
// of text, Count calls `told` with the number of bytes read so far. If told returns an error, Count
// returns the error.
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

// bytesOfToken is the approximate length of a word of prose with a space, in bytes.
const bytesOfToken = 5

// Encode replaces the text of each document by its tokens, with 4 bytes per token. Encode converts
// one document after the other, so that memory never holds both forms of all documents. Documents
// that are already encoded do not change. After each piece of text, Encode calls `told` with the
// number of bytes encoded so far. If told returns an error, Encode returns the error; some
// documents are then not encoded.
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
			// pending keeps an incomplete word for the next piece
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
