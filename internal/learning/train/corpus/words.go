package corpus

import (
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
)

// pieceBytes is the text that is counted or encoded between two calls that tell how far it is.
const pieceBytes = 1 << 20

// Count counts the words of all documents, each a text of its own. It tells how many bytes it has
// read, now and then, and ends with an error of told.
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

// Encode makes tokens of the documents, each a text of its own. A document's tokens, in 4 bytes
// each, take the place of its text, one document after the other, so that text and tokens of all
// never stand in memory together. Documents that are encoded stay as they are. Encode tells how
// many bytes it has read, as Count does; after an error a part of the documents is encoded.
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
			// what is pending makes the others
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

// Occurrences is how often a token occurs in documents that are encoded.
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
