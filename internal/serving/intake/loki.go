package intake

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// SnappyBytes returns the decompressed length that a body declares, limited to the parameter
// `most`. It returns 0 if the body is invalid.
func SnappyBytes(body []byte, most int64) int64 {
	n, err := snappy.DecodedLen(body)
	if err != nil {
		return 0
	}
	return min(int64(n), most)
}

// Snappy decompresses a body. It refuses a body whose decompressed length exceeds the parameter
// `most`.
func Snappy(body []byte, most int) ([]byte, error) {
	n, err := snappy.DecodedLen(body)
	if err == nil && n > most {
		return nil, &Error{What: fmt.Sprintf("%d bytes, expected at most %d", n, most)}
	}
	if err == nil {
		body, err = snappy.Decode(nil, body)
	}
	if err != nil {
		return nil, &Error{What: "not compressed with Snappy: " + err.Error()}
	}
	return body, nil
}

// Loki parses a decompressed PushRequest of Loki (pkg/push/push.proto). The template makes the name
// of an entry's stream from the entry's structured metadata and the labels.
func Loki(body []byte, t *Template) (*Batch, error) {
	b, streams := new(Batch), 0
	return b, each(body, 0, 1, func(f field) error {
		streams++
		return lokiStream(b, f, t, where("stream", streams-1))
	})
}

func lokiStream(b *Batch, stream field, t *Template, place string) error {
	var of source
	err := each(stream.bytes, stream.at, 1, func(f field) (err error) {
		of.sum = sha256.Sum256(f.bytes)
		if of.attributes, err = parseLabels(string(f.bytes), t); err != nil {
			return &Error{f.at, place, err.Error()}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(stream.bytes, stream.at, 2, func(f field) error {
		return lokiEntry(b, f, t, of, place)
	})
}

func lokiEntry(b *Batch, entry field, t *Template, of source, place string) error {
	var time uint64
	var line []byte
	own := map[string]string{}
	err := fields(entry.bytes, entry.at, func(f field) error {
		switch {
		case f.isMessage(1):
			return fields(f.bytes, f.at, func(f field) error {
				switch {
				case f.kind != protowire.VarintType:
				case f.number == 1:
					time += f.value * 1e9
				case f.number == 2:
					time += f.value
				}
				return nil
			})
		case f.isMessage(2):
			line = f.bytes
		case f.isMessage(3):
			// Loki's LabelPair has the same form as OTLP's KeyValue
			name, value, _, err := keyValue(f.bytes, f.at)
			if t.reads(name) {
				own[name] = named(value)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = b.add(t.name(own, of.attributes), time, line, of.sum[:], entry.bytes)
	if err != nil {
		return &Error{entry.at, place, err.Error()}
	}
	return nil
}

// parseLabels parses labels as Prometheus writes them: {app="web", job="x"}. It returns only the
// labels that the template uses.
func parseLabels(text string, t *Template) (map[string]string, error) {
	labels := map[string]string{}
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	for ok {
		rest = strings.TrimLeft(rest, " ,")
		if rest == "}" {
			return labels, nil
		}
		var name, quoted string
		if name, rest, ok = strings.Cut(rest, "="); !ok {
			break
		}
		rest = strings.TrimLeft(rest, " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		rest = rest[len(quoted):]
		value, err := strconv.Unquote(quoted)
		if err != nil {
			break
		}
		if name = strings.TrimSpace(name); t.reads(name) {
			labels[name] = named([]byte(value))
		}
	}
	return nil, fmt.Errorf(`found the labels %.80q, expected {name="value", ...}`, text)
}

// LokiJSON parses a push request of Loki in JSON, with the same result as Loki.
func LokiJSON(body []byte, t *Template) (*Batch, error) {
	b := new(Batch)
	if err := validJSON(body); err != nil {
		return b, err
	}
	return b, members(body, 0, "", func(name string, v value) error {
		if name != "streams" {
			return nil
		}
		return elements(v, func(v value) error {
			g, err := groupOf(v, "stream", "values")
			if err != nil {
				return err
			}
			of := source{sum: sha256.Sum256(g.of.text)}
			if err := g.of.into(&of.attributes); err != nil {
				return err
			}
			shorten(of.attributes)
			return elements(g.list, func(v value) error { return lokiValue(b, v, t, of) })
		})
	})
}

// shorten replaces long attributes by their hashes.
func shorten(attributes map[string]string) {
	for name, value := range attributes {
		attributes[name] = named([]byte(value))
	}
}

func lokiValue(b *Batch, v value, t *Template, of source) error {
	var entry []json.RawMessage
	var time count
	var line string
	own := map[string]string{}
	err := v.into(&entry)
	if err == nil && (len(entry) < 2 || len(entry) > 3) {
		return &Error{v.at, v.where, fmt.Sprintf("found %.40s, expected [time, line]", v.text)}
	}
	for i, to := range []any{&time, &line, &own} {
		if err == nil && i < len(entry) {
			part := value{entry[i], v.at, v.where}
			err = part.into(to)
		}
	}
	if err != nil {
		return err
	}
	shorten(own)
	err = b.add(t.name(own, of.attributes), uint64(time), []byte(line), of.sum[:], v.text)
	if err != nil {
		return &Error{v.at, v.where, err.Error()}
	}
	return nil
}
