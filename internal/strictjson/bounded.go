package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds limit the size and nesting of a JSON text. Otherwise a text could decode to a value that
// needs many times the memory of the text.
type Bounds struct {
	Depth   int // maximum nesting of objects and arrays
	Members int // maximum number of members of one object or array
	Tokens  int // maximum number of plain values, names and brackets in the text
	Bytes   int // maximum bytes of one name, and of one number
}

// ReadBounded reads one JSON value that Check accepts, and returns its text. A text that is empty
// or only white space is also accepted. If the text exceeds a bound, ReadBounded stops reading. It
// then returns an *Error of kind ErrBounds, with the path of the object or array. Otherwise it
// reads r to its end. It returns an error of r without the text, and an error of Check with the
// whole text.
func ReadBounded(r io.Reader, b Bounds) (text []byte, err error) {
	var read bytes.Buffer
	from := &faultNoting{r: r}
	all := io.TeeReader(from, &read)
	dec := jsontext.NewDecoder(all)
	for tokens, ended := 1, false; ; tokens++ {
		token, err := dec.ReadToken()
		switch {
		case from.err != nil:
			return nil, from.err
		case errors.Is(err, io.EOF) && dec.StackDepth() == 0:
			return read.Bytes(), nil
		case err != nil || ended:
			if _, err := io.Copy(io.Discard, all); err != nil {
				return nil, err
			}
			return read.Bytes(), Check(read.Bytes())
		}
		if fault := b.passed(dec, token, tokens); fault != nil {
			return nil, fault
		}
		ended = dec.StackDepth() == 0
	}
}

// passed returns an error for the bound that the last token exceeds, or nil.
func (b Bounds) passed(dec *jsontext.Decoder, token jsontext.Token, tokens int) error {
	depth := dec.StackDepth()
	kind, members := dec.StackIndex(depth)
	isName := kind == jsontext.KindBeginObject && members%2 == 1
	if kind == jsontext.KindBeginObject {
		members = (members + 1) / 2
	}
	at, found := dec.StackPointer(), ""
	switch {
	case depth > b.Depth:
		found = fmt.Sprintf("more than %d objects and arrays within each other", b.Depth)
	case depth > 0 && members > int64(b.Members):
		at, found = at.Parent(), fmt.Sprintf("more than %d values", b.Members)
	case tokens > b.Tokens:
		found = fmt.Sprintf("more than %d values, names and brackets until here", b.Tokens)
	case isName && len(token.String()) > b.Bytes:
		at, found = at.Parent(), fmt.Sprintf("a name of more than %d bytes", b.Bytes)
	case token.Kind() == jsontext.KindNumber && len(token.String()) > b.Bytes:
		found = fmt.Sprintf("a number of more than %d digits", b.Bytes)
	default:
		return nil
	}
	return &Error{Offset: int(dec.InputOffset()), Path: path(dec, at), Found: found,
		Want: "no more", Kind: ErrBounds}
}

// faultNoting is a reader that records the error of another reader. The decoder wraps that error,
// so its origin could not be recognized afterwards.
type faultNoting struct {
	r   io.Reader
	err error
}

func (f *faultNoting) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
