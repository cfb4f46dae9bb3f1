package corpus

import (
	"bytes"
	"math/bits"

	"github.com/lmserve/lmserve/internal/documents"
)

// Document is one file of text: one stream, read from its first byte to its last.
type Document struct {
	Name   string // path below the directory, with slashes
	Domain string // the first folder of Name; "." for a file directly in the directory
	Text   []byte
}

// NewDocument returns the document of that name.
func NewDocument(name string, text []byte) Document {
	return Document{Name: name, Domain: documents.Domain(name), Text: text}
}

// lineSearchBytes is how far a position may move forward to the start of a line.
const lineSearchBytes = 256

// lineStart moves a position forward to the next start of a line, if there is one near and text
// follows it.
func lineStart(text []byte, pos int) int {
	if pos == 0 || text[pos-1] == '\n' {
		return pos
	}
	near := text[pos:min(pos+lineSearchBytes, len(text)-1)]
	if i := bytes.IndexByte(near, '\n'); i >= 0 {
		return pos + i + 1
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
