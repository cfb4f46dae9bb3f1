package keys

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/strictjson"
)

const version = 1

// FormatError describes a fault in a keys file and its position.
type FormatError struct {
	File  string
	Line  int    // from 1
	Field string // e.g. "keys[3].expires"; empty for the whole file
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

// Parse parses the text of a keys file. The parameter name is the file's name in errors, which are
// of type *FormatError.
func Parse(name string, text []byte) ([]Key, error) {
	p := &parser{file: name, text: text, in: strictjson.NewReader("file", text)}
	list, err := p.keys()
	if err != nil {
		return nil, p.located(err)
	}
	return list, nil
}

// parser reads the JSON of a keys file strictly: every deviation from the format is an error with a
// position.
type parser struct {
	file string
	text []byte
	in   *strictjson.Reader
}

func (p *parser) keys() (list []Key, err error) {
	if len(p.text) > FileBytesMax {
		return nil, p.fail(0, "", fmt.Sprintf("more than %d bytes", FileBytesMax), "no more")
	}
	// The code below expects well-formed JSON.
	if err := strictjson.Check(p.text); err != nil {
		return nil, err
	}
	taken := map[string]string{} // paths of earlier keys, by id and by name
	err = p.in.Fields([]string{"version", "keys"}, nil, func(field string) error {
		if field == "version" {
			_, err := p.integer(version, version)
			return err
		}
		return p.in.Array(KeysMax, func(int) error {
			k, err := p.key(taken)
			list = append(list, k)
			return err
		})
	})
	return list, err
}

func (p *parser) fail(offset int, field, found, want string) error {
	line := 1 + bytes.Count(p.text[:min(offset, len(p.text))], []byte("\n"))
	return &FormatError{File: p.file, Line: line, Field: field, Found: found, Want: want}
}

func (p *parser) located(err error) error {
	var e *strictjson.Error
	if !errors.As(err, &e) {
		return err
	}
	offset, field, found, want := e.Offset, e.Path, e.Found, e.Want
	switch e.Kind {
	case strictjson.ErrUTF8:
		found = fmt.Sprintf("the byte 0x%02x", p.text[e.Offset])
	case strictjson.ErrSyntax:
		field, found, want = "", e.Cause.Error(), "JSON"
		// An offset at the end of the text is reported in the last line.
		offset = min(offset, max(0, len(p.text)-1))
	case strictjson.ErrDuplicate:
		found, want = "a duplicate field", "the field once"
	case strictjson.ErrUnknown:
		found = "an unknown field"
	case strictjson.ErrMissing:
		found, want = "nothing", "a value"
	}
	return p.fail(offset, field, found, want)
}

// str reads a string. fits returns "" if the string is valid, else what was expected instead.
func (p *parser) str(fits func(string) (want string)) (string, error) {
	s, err := p.in.String()
	if err != nil {
		return "", err
	}
	if want := fits(s); want != "" {
		return "", p.in.Misfit(want)
	}
	return s, nil
}

func (p *parser) integer(least, most int64) (int64, error) {
	want := fmt.Sprintf("an integer from %d to %d", least, most)
	if least == most {
		want = fmt.Sprint(least)
	}
	literal, err := p.in.Number(want)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil || n < least || n > most {
		return 0, p.in.Misfit(want)
	}
	return n, nil
}

func (p *parser) time() (t time.Time, err error) {
	_, err = p.str(func(s string) string {
		var bad error
		if t, bad = time.Parse(time.RFC3339, s); bad != nil || t.IsZero() {
			return "a time such as 2026-01-31T00:00:00Z"
		}
		// In UTC, the year must also be in the range of RFC 3339.
		if year := t.UTC().Year(); year < 1 || year > 9999 {
			return "a year from 1 to 9999"
		}
		return ""
	})
	return t.UTC(), err
}

// key reads one key. The map taken contains the paths of earlier keys, by id and by name. A revoked
// key's name may be used again. Ids and names can share the map, because a name cannot look like an
// id.
func (p *parser) key(taken map[string]string) (k Key, err error) {
	times := map[string]*time.Time{
		"created": &k.Created, "expires": &k.Expires, "revoked": &k.Revoked,
	}
	var path string
	at := map[string]int{}
	required, optional := []string{"id", "name", "sha256", "created"},
		[]string{"expires", "revoked", "admin", "limits"}
	err = p.in.Fields(required, optional, func(field string) (err error) {
		at[field], path = p.in.Offset(), strings.TrimSuffix(p.in.Path(), "."+field)
		switch field {
		case "id":
			k.ID, err = p.str(func(s string) string {
				return unless(isID(s),
					"16 hexadecimal digits in lower case")
			})
		case "name":
			k.Name, err = p.str(CheckName)
		case "sha256":
			_, err = p.str(func(s string) string {
				n, _ := hex.Decode(k.Hash[:], []byte(s[:min(len(s), 2*len(k.Hash))]))
				return unless(n == len(k.Hash) && len(s) == 2*n && consistsOf(s, hexAlphabet),
					"64 hexadecimal digits in lower case")
			})
		case "created", "expires", "revoked":
			*times[field], err = p.time()
		case "admin":
			k.Admin, err = p.in.Bool()
		case "limits":
			k.Limits, err = p.limits()
		}
		return err
	})
	if err != nil {
		return k, err
	}
	if other := taken[k.ID]; other != "" {
		return k, p.fail(at["id"], path+".id", fmt.Sprintf("%q, already used by %s", k.ID, other),
			"an unused id")
	}
	taken[k.ID] = path
	if k.Revoked.IsZero() {
		if other := taken[k.Name]; other != "" {
			return k, p.fail(at["name"], path+".name", fmt.Sprintf("%q, already used by %s", k.Name,
				other), "an unused name, or one of the two keys revoked")
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

func (p *parser) limits() (_ Limits, err error) {
	optional := []string{"sessions", "requests", "bytes_per_second", "disk"}
	most := map[string]int64{
		"sessions": SessionsMax, "requests": RequestsMax,
		"bytes_per_second": BytesPerSecondMax, "disk": DiskMax,
	}
	n := map[string]int64{}
	err = p.in.Fields(nil, optional, func(field string) (err error) {
		n[field], err = p.integer(1, most[field])
		return err
	})
	return Limits{
		int(n["sessions"]), int(n["requests"]), n["bytes_per_second"], n["disk"],
	}, err
}

// Format returns the text of a keys file with the given keys. Parse returns the same keys again.
func Format(list []Key) []byte {
	file := struct {
		Version int       `json:"version"`
		Keys    []fileKey `json:"keys"`
	}{version, make([]fileKey, len(list))}
	for i, k := range list {
		file.Keys[i] = fileKey{ID: k.ID, Name: k.Name, SHA256: hex.EncodeToString(k.Hash[:]),
			Created: k.Created, Expires: k.Expires,
			Revoked: k.Revoked, Admin: k.Admin, Limits: k.Limits}
	}
	text, err := json.MarshalIndent(file, "", "  ")
	// impossible: keys contain only strings, integers, booleans and times with four-digit years
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

type fileKey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	SHA256  string    `json:"sha256"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Admin   bool      `json:"admin,omitempty"`
	Limits  Limits    `json:"limits,omitzero"`
}
