package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// NameDefault is the default template: the first of these attributes or labels that exists, else
// the text unknown.
const NameDefault = "{service.name|service_name|job|app|container|unknown}"

// nameMax is the maximum length of a stream's name, in bytes. Session names have the same limit.
const nameMax = 64

// attributeMax is the length in bytes above which names contain an attribute's hash instead of its
// value. Otherwise a million records could each copy the same long value.
const attributeMax = 256

func named(value []byte) string {
	if len(value) <= attributeMax {
		return string(value)
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// source describes where records come from: an OTLP resource or scope, or a Loki stream.
type source struct {
	attributes map[string]string
	sum        [sha256.Size]byte // hash of the source, with all attributes
}

// Template makes the name of a stream from the attributes of its records.
type Template struct {
	parts []part
	keys  []string
}

// part is a part of a template: a fixed text, or a list of alternative attributes.
type part struct {
	text string
	// attributes in order of preference, then a default text; nil for a fixed text
	keys []string
}

// ParseTemplate parses a template. In a template, {a|b|c} is replaced by the attribute a, or by the
// attribute b if a is missing. If both are missing, it is replaced by the text c.
func ParseTemplate(text string) (*Template, error) {
	t := new(Template)
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return nil, fmt.Errorf("found } without { in %.80q", text)
		}
		if before != "" {
			t.parts = append(t.parts, part{text: before})
		}
		if !found {
			break
		}
		inner, tail, closed := strings.Cut(after, "}")
		if !closed || inner == "" || strings.Contains(inner, "{") {
			return nil,
				fmt.Errorf("found %.80q, expected {attribute} or {attribute|attribute|text}",
					"{"+after)
		}
		keys := strings.Split(inner, "|")
		t.parts, t.keys = append(t.parts, part{keys: keys}), append(t.keys, keys...)
		rest = tail
	}
	if len(t.parts) == 0 {
		return nil, fmt.Errorf("found an empty template, expected a template such as "+
			"%s", NameDefault)
	}
	return t, nil
}

func (t *Template) reads(key string) bool { return slices.Contains(t.keys, key) }

// name returns the name of the stream for a record with these attributes. Earlier sets of
// attributes take precedence.
func (t *Template) name(sets ...map[string]string) string {
	var name strings.Builder
	for _, p := range t.parts {
		name.WriteString(p.text)
		if p.keys != nil {
			name.WriteString(p.value(sets))
		}
	}
	return Name(name.String())
}

func (p *part) value(sets []map[string]string) string {
	for _, key := range p.keys {
		for _, set := range sets {
			if value := set[key]; value != "" {
				return value
			}
		}
	}
	return p.keys[len(p.keys)-1]
}

// Name converts a text to a valid session name. Capitals become lowercase. Characters other than
// a-z, digits and . _ - become -. If more than capitals changed, or the name is too long, Name
// appends 8 digits of a hash. Otherwise two texts could get the same name.
func Name(text string) string {
	small := strings.ToLower(text)
	name := []byte(small)
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			name[i] = '-'
		}
	}
	clean := strings.TrimLeft(string(name), "-._")
	// "import" is a path of the HTTP interface, and ids are UUIDs of 36 characters; neither may be
	// a name.
	if clean == small && len(clean) <= nameMax && clean != "" && clean != "import" &&
		len(clean) != 36 {
		return clean
	}
	sum := sha256.Sum256([]byte(small))
	digits := hex.EncodeToString(sum[:4])
	if clean == "" {
		return digits
	}
	return clean[:min(len(clean), nameMax-len(digits)-1)] + "-" + digits
}
