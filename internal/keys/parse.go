package keys

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// version of the file that this package reads and writes.
const version = 1

// FormatError says where a keys file is wrong, and how.
type FormatError struct {
	File  string
	Line  int    // from 1
	Field string // "keys[3].expires"; "" is the file as a whole
	Found string
	Want  string
}

func (e *FormatError) Error() string {
	field := e.Field
	if field != "" {
		field += ": "
	}
	return fmt.Sprintf("%s:%d: %sfound %s, expected %s", e.File, e.Line, field, e.Found, e.Want)
}

// Parse reads the text of a keys file; name is what errors call it. Its errors are *FormatError.
func Parse(name string, text []byte) ([]Key, error) {
	p := &parser{file: name, text: text}
	if err := p.checkJSON(); err != nil {
		return nil, err
	}
	p.dec = json.NewDecoder(bytes.NewReader(text))
	p.dec.UseNumber()
	var list []Key
	taken := map[string]string{} // ids and names, by whom
	err := p.object("", []string{"version", "keys"}, nil, func(field string) error {
		if field == "version" {
			_, err := p.integer(field, version, version)
			return err
		}
		return p.array(field, KeysMax, func(path string) error {
			k, err := p.key(path, taken)
			list = append(list, k)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// parser walks JSON as the format prescribes it, so that whatever is not prescribed is an error at its place.
type parser struct {
	file string
	text []byte
	dec  *json.Decoder
}

// checkJSON makes sure that the walk meets whole, well-formed JSON.
func (p *parser) checkJSON() error {
	if len(p.text) > FileBytesMax {
		return p.fail(0, "", fmt.Sprintf("more than %d bytes", FileBytesMax), "no more")
	}
	for i := 0; i < len(p.text); {
		r, n := utf8.DecodeRune(p.text[i:])
		if r == utf8.RuneError && n == 1 {
			return p.fail(i, "", fmt.Sprintf("the byte 0x%02x", p.text[i]), "UTF-8")
		}
		i += n
	}
	var whole json.RawMessage
	if err := json.Unmarshal(p.text, &whole); err != nil {
		at := len(p.text)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = max(0, int(syntax.Offset)-1)
		}
		return p.fail(at, "", err.Error(), "JSON")
	}
	return nil
}

// fail is an error at an offset of the text.
func (p *parser) fail(offset int, field, found, want string) error {
	line := 1 + bytes.Count(p.text[:min(offset, len(p.text))], []byte("\n"))
	return &FormatError{File: p.file, Line: line, Field: field, Found: found, Want: want}
}

// next gives the next token, and fails if it is not what accept says it must be.
func (p *parser) next(field, want string, accept func(json.Token) bool) (json.Token, error) {
	token, err := p.dec.Token()
	if err != nil { // not after checkJSON
		return nil, p.fail(int(p.dec.InputOffset()), field, err.Error(), want)
	}
	if !accept(token) {
		return nil, p.fail(int(p.dec.InputOffset()), field, show(token), want)
	}
	return token, nil
}

// show writes a token as an error has it.
func show(token json.Token) string {
	switch v := token.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "an array", '}': "the end of an object", ']': "the end of an array"}[v]
	case string:
		if len(v) > 80 {
			return strconv.Quote(v[:80]) + "…"
		}
		return strconv.Quote(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(token)
}

func is(delim json.Delim) func(json.Token) bool {
	return func(t json.Token) bool { return t == delim }
}

// object reads an object: each required field once, each optional one at most once, no other.
func (p *parser) object(path string, required, optional []string, read func(field string) error) error {
	if _, err := p.next(path, "an object", is('{')); err != nil {
		return err
	}
	var seen []string
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return p.fail(int(p.dec.InputOffset()), path, err.Error(), "a field")
		}
		name := token.(string) // JSON has no other names
		known := slices.Concat(required, optional)
		switch {
		case !slices.Contains(known, name):
			return p.fail(int(p.dec.InputOffset()), join(path, name), "an unknown field", fmt.Sprintf("one of %q", known))
		case slices.Contains(seen, name):
			return p.fail(int(p.dec.InputOffset()), join(path, name), "a field given twice", "it once")
		}
		seen = append(seen, name)
		if err := read(join(path, name)); err != nil {
			return err
		}
	}
	if _, err := p.dec.Token(); err != nil { // the end
		return p.fail(int(p.dec.InputOffset()), path, err.Error(), "the end of the object")
	}
	for _, name := range required {
		if !slices.Contains(seen, name) {
			return p.fail(int(p.dec.InputOffset()), join(path, name), "no such field", "one")
		}
	}
	return nil
}

// join adds a field to a path. A name out of a foreign file is quoted where it could be mistaken for something else.
func join(path, name string) string {
	if !consistsOf(name, nameAlphabet) || len(name) > NameCharsMax {
		name = show(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// array reads an array of at most so many elements.
func (p *parser) array(path string, most int, read func(path string) error) error {
	if _, err := p.next(path, "an array", is('[')); err != nil {
		return err
	}
	for i := 0; p.dec.More(); i++ {
		if i == most {
			return p.fail(int(p.dec.InputOffset()), path, fmt.Sprintf("more than %d elements", most), "no more")
		}
		if err := read(fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	_, err := p.next(path, "the end of the array", is(']'))
	return err
}

// str reads a string for which fits gives "", or else what was expected.
func (p *parser) str(path string, fits func(string) (want string)) (string, error) {
	token, err := p.next(path, "a string", func(t json.Token) bool { _, ok := t.(string); return ok })
	if err != nil {
		return "", err
	}
	s := token.(string)
	if want := fits(s); want != "" {
		return "", p.fail(int(p.dec.InputOffset()), path, show(s), want)
	}
	return s, nil
}

func (p *parser) integer(path string, least, most int64) (n int64, err error) {
	want := fmt.Sprintf("an integer from %d to %d", least, most)
	if least == most {
		want = fmt.Sprint(least)
	}
	_, err = p.next(path, want, func(t json.Token) bool {
		literal, ok := t.(json.Number)
		if ok {
			n, err = strconv.ParseInt(literal.String(), 10, 64)
		}
		return ok && err == nil && n >= least && n <= most
	})
	return n, err
}

func (p *parser) boolean(path string) (bool, error) {
	token, err := p.next(path, "true or false", func(t json.Token) bool { _, ok := t.(bool); return ok })
	if err != nil {
		return false, err
	}
	return token.(bool), nil
}

func (p *parser) time(path string) (t time.Time, err error) {
	_, err = p.str(path, func(s string) string {
		var bad error
		if t, bad = time.Parse(time.RFC3339, s); bad != nil || t.IsZero() {
			return "a time such as 2026-01-31T00:00:00Z"
		}
		if year := t.UTC().Year(); year < 1 || year > 9999 { // what RFC 3339 can say, in UTC too
			return "a year from 1 to 9999"
		}
		return ""
	})
	return t.UTC(), err
}

// key reads one key. taken has the paths of those before it, by their ids and the names in use; an id is no name.
func (p *parser) key(path string, taken map[string]string) (k Key, err error) {
	at := map[string]int{} // offsets of the fields
	err = p.object(path, []string{"id", "name", "sha256", "created"}, []string{"expires", "revoked", "admin", "limits"}, func(field string) (err error) {
		defer func() { at[field] = int(p.dec.InputOffset()) }()
		switch field[len(path)+1:] {
		case "id":
			k.ID, err = p.str(field, func(s string) string { return unless(isID(s), "16 hexadecimal digits in lower case") })
		case "name":
			k.Name, err = p.str(field, CheckName)
		case "sha256":
			_, err = p.str(field, func(s string) string {
				n, _ := hex.Decode(k.Hash[:], []byte(s[:min(len(s), 2*len(k.Hash))]))
				return unless(n == len(k.Hash) && len(s) == 2*n && consistsOf(s, hexAlphabet), "64 hexadecimal digits in lower case")
			})
		case "created":
			k.Created, err = p.time(field)
		case "expires":
			k.Expires, err = p.time(field)
		case "revoked":
			k.Revoked, err = p.time(field)
		case "admin":
			k.Admin, err = p.boolean(field)
		case "limits":
			k.Limits, err = p.limits(field)
		}
		return err
	})
	if err != nil {
		return k, err
	}
	if other := taken[k.ID]; other != "" {
		return k, p.fail(at[path+".id"], path+".id", fmt.Sprintf("%q, which %s has", k.ID, other), "another one")
	}
	taken[k.ID] = path
	if k.Revoked.IsZero() {
		if other := taken[k.Name]; other != "" {
			return k, p.fail(at[path+".name"], path+".name", fmt.Sprintf("%q, which %s has", k.Name, other), "another one, or one of the two revoked")
		}
		taken[k.Name] = path
	}
	return k, nil
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func (p *parser) limits(path string) (l Limits, err error) {
	err = p.object(path, nil, []string{"sessions", "requests", "bytes_per_second"}, func(field string) error {
		var n int64
		var err error
		switch field[len(path)+1:] {
		case "sessions":
			n, err = p.integer(field, 1, SessionsMax)
			l.Sessions = int(n)
		case "requests":
			n, err = p.integer(field, 1, RequestsMax)
			l.Requests = int(n)
		case "bytes_per_second":
			l.BytesPerSecond, err = p.integer(field, 1, BytesPerSecondMax)
		}
		return err
	})
	return l, err
}

// Format writes the text of a keys file. Parse gives the same keys back.
func Format(list []Key) []byte {
	file := struct {
		Version int       `json:"version"`
		Keys    []fileKey `json:"keys"`
	}{version, make([]fileKey, len(list))}
	for i, k := range list {
		file.Keys[i] = fileKey{ID: k.ID, Name: k.Name, SHA256: hex.EncodeToString(k.Hash[:]), Created: k.Created, Expires: k.Expires,
			Revoked: k.Revoked, Admin: k.Admin, Limits: fileLimits(k.Limits)}
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil { // strings, integers and times of four-digit years always can be
		panic(err)
	}
	return append(text, '\n')
}

// fileKey is a key as the file has it.
type fileKey struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	SHA256  string     `json:"sha256"`
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires,omitzero"`
	Revoked time.Time  `json:"revoked,omitzero"`
	Admin   bool       `json:"admin,omitempty"`
	Limits  fileLimits `json:"limits,omitzero"`
}

type fileLimits struct {
	Sessions       int   `json:"sessions,omitempty"`
	Requests       int   `json:"requests,omitempty"`
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
}
