package corpus

import (
	"math/bits"

	"github.com/lmserve/lmserve/internal/documents"
)

// Document is one file of text: one stream, read from its first token to its last.
type Document struct {
	Name   string // path below the directory, with slashes
	Domain string // the first folder of Name; "." for a file directly in the directory
	Text   []byte // nil once the document is encoded; until then a token is a byte

	ids  []int32 // of a document that is encoded
	size int     // bytes of the text that ids were made of
}

// NewDocument returns the document of that name.
func NewDocument(name string, text []byte) Document {
	return Document{Name: name, Domain: documents.Domain(name), Text: text}
}

// Bytes is the number of bytes of the document's text.
func (d *Document) Bytes() int { return d.size + len(d.Text) }

// Len is the number of the document's tokens.
func (d *Document) Len() int { return len(d.ids) + len(d.Text) }

// Token is the i'th token.
func (d *Document) Token(i int) int32 {
	if d.ids != nil {
		return d.ids[i]
	}
	return int32(d.Text[i])
}

// Head returns the document's first n tokens, or all if there are fewer, as a document.
func (d *Document) Head(n int) Document {
	head := *d
	head.Text, head.ids = d.Text[:min(n, len(d.Text))], d.ids[:min(n, len(d.ids))]
	return head
}

// Read fills inputs and targets [T] with the tokens from a place on and those before each, and
// returns how many there are. The token before a document's first one is given.
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

// lineSearch is how many tokens a position may move forward to the start of a line.
const lineSearch = 256

// lineStart moves a position forward to the next start of a line, if there is one near and text
// follows it. A line ends with the given token.
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

// StateError says that the saved state of a reader or of a stream of pieces is not one of its
// text.
type StateError struct{ text string }

func (e *StateError) Error() string { return e.text }
