package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// NameDefault names a stream by the first of these attributes or labels that exists.
const NameDefault = "{service.name|service_name|job|app|container|unknown}"

// nameMax is the longest name of a stream, in bytes; session names have the same limit.
const nameMax = 64

// attributeMax is the length, in bytes, above which an attribute's value is replaced by its hash in
// names. A million records of a body may share one long value, and each would copy it.
const attributeMax = 256

// named returns the value of an attribute as it appears in names: unchanged, or as a hash if it is
// long.
func named(value []byte) string {
	if len(value) <= attributeMax {
		return string(value)
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// source is a common source of records: a resource, a scope or a stream.
type source struct {
	attributes map[string]string // only the attributes that the template uses
	sum        [sha256.Size]byte // hash of all its attributes
}

// Template makes the name of a stream from the attributes of its records.
type Template struct {
	parts []part
	keys  []string // attributes that the template uses
}

// part is a part of a template: a fixed text, or a list of attributes of which the first that
// exists is used.
type part struct {
	text string
	// attributes, and as last element a text for the case that none exists; nil for a fixed text
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

// reads reports whether the template uses an attribute.
func (t *Template) reads(key string) bool { return slices.Contains(t.keys, key) }

// name returns the name of the stream of a record with attributes in these sets. If several sets
// have an attribute, the first set counts.
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

// Name converts any text to the name of a session. It keeps lowercase letters, digits and the
// characters . _ - and converts capitals to lowercase. Other characters become -. If Name changes
// more than capitals, or the name is too long, it appends 8 digits of a hash. Without them, two
// texts could get the same name.
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
