package strictjson

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

type scanner struct {
	name  string
	text  []byte
	dec   *jsontext.Decoder
	start int
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
}

func (s *scanner) checkUTF8() error {
	at := invalidUTF8(s.text)
	if at < 0 {
		return nil
	}
	return &Error{Offset: at, Found: "byte " + strconv.QuoteToASCII(string(s.text[at:at+1])),
		Want: "UTF-8", Kind: ErrUTF8}
}

// next returns the offset of the next token. Up to this token the text must be valid.
func (s *scanner) next() int {
	at := skipSpace(s.text, int(s.dec.InputOffset()))
	if at < len(s.text) && (s.text[at] == ',' || s.text[at] == ':') {
		at = skipSpace(s.text, at+1)
	}
	return at
}

// token reads the next token. want describes the expected token, for errors at the text's end or
// at an invalid token. The error is an *Error.
func (s *scanner) token(want string) (jsontext.Token, error) {
	start := s.next()
	token, err := s.dec.ReadToken()
	if err != nil {
		return token, s.fault(err, want)
	}
	s.start = start
	return token, nil
}

func (s *scanner) here() string { return path(s.dec, s.dec.StackPointer()) }

func (s *scanner) found(at int) string {
	if at >= len(s.text) {
		return "the end of the " + s.name
	}
	r, _ := utf8.DecodeRune(s.text[at:])
	return strconv.QuoteRune(r)
}

func (s *scanner) fault(err error, want string) *Error {
	e := &Error{Offset: len(s.text), Path: s.here(), Want: want, Kind: ErrSyntax}
	var syntax *jsontext.SyntacticError
	// The condition is false for io.EOF, the error for a text without a value.
	if errors.As(err, &syntax) {
		e.Offset = min(int(syntax.ByteOffset), len(s.text))
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e.Path, e.Kind = path(s.dec, syntax.JSONPointer), ErrDuplicate
		e.Found, e.Want = "key "+quote(syntax.JSONPointer.LastToken())+" again", "every key once"
		return e
	}
	if start := s.next(); start < e.Offset && s.text[start] == '"' {
		s.stringFault(e)
		return e
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		e.Offset = len(s.text)
	}
	s.expect(e)
	e.Found = s.found(e.Offset)
	return e
}

// stringFault describes a fault inside a string: a bad escape sequence, a control character, or the
// end of the text.
func (s *scanner) stringFault(e *Error) {
	if e.Offset < len(s.text) && s.text[e.Offset] == '\\' {
		rest := s.text[e.Offset:]
		if len(rest) == 1 {
			e.Offset++
			e.Found, e.Want = s.found(e.Offset), "an escape sequence"
			return
		}
		e.Found, e.Want = quote(string(rest[:2])), "an escape sequence of JSON"
		if rest[1] == 'u' {
			e.Found, e.Want = quote(string(rest[:min(12, len(rest))])),
				`a character as \uXXXX, or two that pair`
			if len(rest) >= 6 {
				if _, err := strconv.ParseUint(string(rest[2:6]), 16, 16); err == nil {
					e.Kind = ErrSurrogate
				}
			}
		}
		return
	}
	e.Found, e.Want = s.found(e.Offset), "control characters escaped"
	if e.Offset >= len(s.text) {
		e.Want = `'"'`
	}
}

// expect sets e.Want for a fault outside strings where a delimiter, a name or the end of the text
// was expected. Where a value was expected, e.Want stays as it is. For a trailing comma, expect
// moves the fault to the token after the comma.
func (s *scanner) expect(e *Error) {
	depth := s.dec.StackDepth()
	kind, length := s.dec.StackIndex(depth)
	isDelimiter := e.Offset <= skipSpace(s.text, int(s.dec.InputOffset()))
	hasMembers := length > 0 && (kind == jsontext.KindBeginArray ||
		kind == jsontext.KindBeginObject && length%2 == 0)
	if isDelimiter && hasMembers && e.Offset < len(s.text) && s.text[e.Offset] == ',' {
		e.Offset, isDelimiter = skipSpace(s.text, e.Offset+1), false
	}
	switch {
	case depth == 0 && length > 0:
		e.Want = "nothing more"
	case kind == jsontext.KindBeginObject && length%2 == 1:
		if isDelimiter {
			e.Want = "':'"
		}
	case kind == jsontext.KindBeginObject && length > 0 && isDelimiter:
		e.Want = "',' or '}'"
	case kind == jsontext.KindBeginObject:
		// A name was expected here. If another value was found, the decoder may report a later
		// byte, so e.Offset is moved back to the value's first byte.
		e.Offset, e.Want = min(e.Offset, s.next()), "a string"
	case kind == jsontext.KindBeginArray && length > 0 && isDelimiter:
		e.Want = "',' or ']'"
	}
}

func (s *scanner) end() error {
	at := skipSpace(s.text, int(s.dec.InputOffset()))
	if at == len(s.text) {
		return nil
	}
	return &Error{Offset: at, Found: s.found(at), Want: "nothing more", Kind: ErrSyntax}
}
