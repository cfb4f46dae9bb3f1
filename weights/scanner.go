package weights

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/lmserve/lmserve/internal/strictjson"
)

// scanner reads the JSON of a header: objects, strings and arrays of plain integers. Errors are of
// type *Error, with an offset in the file.
type scanner struct {
	text  []byte
	in    *strictjson.Reader
	where string
}

func newScanner(text []byte) *scanner {
	return &scanner{text: text, in: strictjson.NewReader("header", text), where: "header"}
}

func (s *scanner) fail(at int, found, want string) error {
	return &Error{Where: s.where, Offset: prefixBytes + int64(at), Found: found, Want: want,
		Kind: ErrFormat}
}

func (s *scanner) tooLarge(at int, found, want string) error {
	return &Error{Where: s.where, Offset: prefixBytes + int64(at), Found: found, Want: want,
		Kind: ErrTooLarge}
}

// located converts an error of strictjson into an *Error. It returns other errors unchanged.
func (s *scanner) located(err error) error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Kind == strictjson.ErrValue {
		return s.fail(e.Offset, s.found(e.Offset), e.Want)
	}
	return s.fail(e.Offset, e.Found, e.Want)
}

func (s *scanner) found(at int) string {
	if at >= len(s.text) {
		return "the end of the header"
	}
	r, _ := utf8.DecodeRune(s.text[at:])
	return strconv.QuoteRune(r)
}

// object reads an object and calls member at every value. The function member must read the value.
// Its argument `at` is the offset of the key. A repeated key is an error.
func (s *scanner) object(member func(key string, at int) error) error {
	where := s.where
	return s.located(s.in.Object(func(key string) error {
		err := member(key, s.in.Offset())
		if err == nil {
			s.where = where
		}
		return err
	}))
}

// ints reads an array of at most MaxRank non-negative integers.
func (s *scanner) ints() (list []int64, err error) {
	err = s.in.Array(MaxRank+1, func(i int) error {
		n, err := s.integer()
		list = append(list, n)
		if i == MaxRank {
			most := strconv.Itoa(MaxRank) + " numbers"
			err = s.fail(s.in.Offset(), "more than "+most, "at most "+most)
		}
		return err
	})
	return list, s.located(err)
}

// integer reads a non-negative integer of plain digits, without sign, fraction, exponent or leading
// zero.
func (s *scanner) integer() (int64, error) {
	const want = "an integer >= 0"
	literal, err := s.in.Number(want)
	if err != nil {
		return 0, s.located(err)
	}
	at := s.in.Offset()
	end := at
	for end < len(s.text) && '0' <= s.text[end] && s.text[end] <= '9' {
		end++ // the text 02 must be read whole, but its literal is only 0
	}
	digits := string(s.text[at:end])
	switch {
	case digits == "":
		return 0, s.fail(at, s.found(at), want)
	case len(digits) < len(literal): // a fraction or an exponent
		return 0, s.fail(end, s.found(end), "',' or ']'")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || (digits[0] == '0' && len(digits) > 1) {
		return 0, s.fail(at, quote(digits), "an integer below 2^63 without leading zeros")
	}
	return n, nil
}

func (s *scanner) str() (string, error) {
	text, err := s.in.String()
	return text, s.located(err)
}
