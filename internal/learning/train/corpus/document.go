package corpus

import (
	"math/bits"

	"github.com/lmserve/lmserve/internal/documents"
)

// Document is one file of text, read as one stream.
type Document struct {
	Name   string
	Domain string // the first folder in Name; "." if Name has no folder
	Text   []byte // nil after encoding; before, each byte is a token

	ids  []int32
	size int // number of bytes of the encoded text; 0 before encoding
}

// NewDocument returns a document with a name and a text.
func NewDocument(name string, text []byte) Document {
	return Document{Name: name, Domain: documents.Domain(name), Text: text}
}

// Bytes returns the number of bytes of the document's text.
func (d *Document) Bytes() int { return d.size + len(d.Text) }

// Len returns the number of the document's tokens.
func (d *Document) Len() int { return len(d.ids) + len(d.Text) }

// Token returns the i'th token.
func (d *Document) Token(i int) int32 {
	if d.ids != nil {
		return d.ids[i]
	}
	return int32(d.Text[i])
}

// Head returns a document of the first n tokens, or of all tokens if there are fewer.
func (d *Document) Head(n int) Document {
	head := *d
	head.Text, head.ids = d.Text[:min(n, len(d.Text))], d.ids[:min(n, len(d.ids))]
	return head
}

// Read fills targets [T] with the tokens from index `at`, and inputs [T] with the token before each
// target. The input for the document's first token is `first`. Read returns the number of targets,
// which is less than T at the document's end.
func (d *Document) Read(at int, first int32, inputs, targets []int32) (n int) {
	for ; n < len(targets) && at+n < d.Len(); n++ {
		inputs[n] = first
		if at+n > 0 {
			inputs[n] = d.Token(at + n - 1)
		}
		targets[n] = d.Token(at + n)
	}
	return n
}

// lineSearch is the maximum number of tokens by which lineStart moves a position.
const lineSearch = 256

// lineStart returns the first start of a line at or after pos, or pos if none is within lineSearch
// tokens. The parameter `end` is the token that ends a line.
func (d *Document) lineStart(pos int, end int32) int {
	if pos == 0 || d.Token(pos-1) == end {
		return pos
	}
	for i := pos; i < min(pos+lineSearch, d.Len()-1); i++ {
		if d.Token(i) == end {
			return i + 1
		}
	}
	return pos
}

// below maps 64 random bits to 0..n-1.
func below(random uint64, n int) int {
	hi, _ := bits.Mul64(random, uint64(n))
	return int(hi)
}

// StateError reports that the saved state of a Reader or a Pieces does not fit the text.
type StateError struct{ text string }

func (e *StateError) Error() string { return e.text }
