package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds are what a text may have at most, whatever it says. A program that makes a tree of a text
// needs many times the text's memory; of a text within bounds it needs little more than the text's.
type Bounds struct {
	Depth   int // objects and arrays within each other
	Members int // of one object or array
	Tokens  int // in all: plain values, names and brackets
	Bytes   int // of a name, and of a number
}

// ReadBounded reads one JSON value that passes Check, and gives its text. It looks at the text as
// it arrives, and reads no further where a bound is passed: the error is then an *Error of the kind
// ErrBounds, whose path is that of the object or array. Other errors are those of Check, which come
// with the whole text, and of r. A text that is empty, or white space, is given as it is.
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
		case errors.Is(err, io.EOF) && dec.StackDepth() == 0: // before the value, or after it
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

// passed describes the bound that is passed with the token that was read last; nil if none is.
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

// faultNoting notes the error of a reader, which a decoder dresses as its own.
type faultNoting struct {
	r   io.Reader
	err error // but for io.EOF
}

func (f *faultNoting) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
