package weights

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the little of JSON that a header is made of: objects, strings
// and arrays of non-negative integers. It is ours rather than encoding/json
// because that one lets duplicate keys, broken surrogates and 1e0 pass, and
// because every error here has its byte.
type scanner struct {
	text  []byte
	pos   int
	where string // what is being read, for errors
}

func (s *scanner) fail(at int, found, want string) error {
	return &Error{Where: s.where, Offset: prefixBytes + int64(at), Found: found, Want: want, Kind: ErrFormat}
}

func (s *scanner) tooLarge(at int, found, want string) error {
	return &Error{Where: s.where, Offset: prefixBytes + int64(at), Found: found, Want: want, Kind: ErrTooLarge}
}

// found describes what stands at the position.
func (s *scanner) found() string {
	if s.pos >= len(s.text) {
		return "the end of the header"
	}
	r, _ := utf8.DecodeRune(s.text[s.pos:])
	return strconv.QuoteRune(r)
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// accept steps over c, after white space, if it stands there.
func (s *scanner) accept(c byte) bool {
	s.space()
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// object reads an object and calls member at every value, which member must
// read; at is the position of the key. A key that comes twice is an error.
func (s *scanner) object(member func(key string, at int) error) error {
	where := s.where
	if !s.accept('{') {
		return s.fail(s.pos, s.found(), "an object")
	}
	if s.accept('}') {
		return nil
	}
	seen := map[string]bool{}
	for {
		s.where = where
		s.space()
		at := s.pos
		key, err := s.str()
		if err != nil {
			return err
		}
		if seen[key] {
			return s.fail(at, "key "+quote(key)+" again", "every key once")
		}
		seen[key] = true
		if !s.accept(':') {
			return s.fail(s.pos, s.found(), "':'")
		}
		if err := member(key, at); err != nil {
			return err
		}
		s.where = where
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return s.fail(s.pos, s.found(), "',' or '}'")
		}
	}
}

// ints reads an array of at most MaxRank non-negative integers.
func (s *scanner) ints() ([]int64, error) {
	if !s.accept('[') {
		return nil, s.fail(s.pos, s.found(), "an array")
	}
	var list []int64
	if s.accept(']') {
		return list, nil
	}
	for {
		if len(list) == MaxRank {
			return nil, s.fail(s.pos, "more than "+strconv.Itoa(MaxRank)+" numbers", "at most that many")
		}
		n, err := s.integer()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if s.accept(']') {
			return list, nil
		}
		if !s.accept(',') {
			return nil, s.fail(s.pos, s.found(), "',' or ']'")
		}
	}
}

// integer reads plain digits: no sign, fraction, exponent or leading zero.
func (s *scanner) integer() (int64, error) {
	s.space()
	at := s.pos
	for s.pos < len(s.text) && s.text[s.pos] >= '0' && s.text[s.pos] <= '9' {
		s.pos++
	}
	digits := string(s.text[at:s.pos])
	if digits == "" {
		return 0, s.fail(at, s.found(), "an integer >= 0")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || (digits[0] == '0' && len(digits) > 1) {
		return 0, s.fail(at, quote(digits), "an integer below 2^63 without leading zeros")
	}
	return n, nil
}

// str reads a string. The header is known to be UTF-8.
func (s *scanner) str() (string, error) {
	if !s.accept('"') {
		return "", s.fail(s.pos, s.found(), "a string")
	}
	var b []byte
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '"':
			s.pos++
			return string(b), nil
		case c < 0x20:
			return "", s.fail(s.pos, s.found(), "control characters escaped")
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
			s.pos++
		}
	}
	return "", s.fail(s.pos, s.found(), `'"'`)
}

// escape reads an escape sequence, of which the backslash stands at the
// position.
func (s *scanner) escape() (rune, error) {
	at := s.pos
	s.pos++
	if s.pos == len(s.text) {
		return 0, s.fail(s.pos, s.found(), "an escape sequence")
	}
	c := s.text[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.unicode(at)
	}
	return 0, s.fail(at, quote(string(s.text[at:s.pos])), "an escape sequence of JSON")
}

// unicode reads the rest of \uXXXX, or of a pair of them that stands for one
// character beyond U+FFFF.
func (s *scanner) unicode(at int) (rune, error) {
	r, ok := s.hex4()
	if ok && utf16.IsSurrogate(r) {
		var low rune
		if ok = s.pos+2 <= len(s.text) && string(s.text[s.pos:s.pos+2]) == `\u`; ok {
			s.pos += 2
			low, ok = s.hex4()
		}
		r = utf16.DecodeRune(r, low)
		ok = ok && r != utf8.RuneError
	}
	if !ok {
		return 0, s.fail(at, quote(string(s.text[at:min(at+12, len(s.text))])), `a character as \uXXXX, or two that pair`)
	}
	return r, nil
}

func (s *scanner) hex4() (rune, bool) {
	if s.pos+4 > len(s.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.text[s.pos:s.pos+4]), 16, 16)
	s.pos += 4
	return rune(n), err == nil
}
