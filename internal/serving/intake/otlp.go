package intake

import (
	"cmp"
	"crypto/sha256"

	"google.golang.org/protobuf/encoding/protowire"
)

// OTLP parses an ExportLogsServiceRequest of OpenTelemetry's protocol in protobuf
// (opentelemetry/proto/collector/logs/v1). The template names a record's stream by attributes of
// the record, its scope and its resource, in this order of preference. A record without a body is
// refused.
func OTLP(body []byte, t *Template) (*Batch, error) {
	b := new(Batch)
	err := each(body, 0, 1, func(f field) error { return resourceLogs(b, f, t) })
	return b, err
}

// each visits the submessages of a message with the given field number.
func each(message []byte, at int, number protowire.Number, visit func(f field) error) error {
	return fields(message, at, func(f field) error {
		if f.isMessage(number) {
			return visit(f)
		}
		return nil
	})
}

func resourceLogs(b *Batch, logs field, t *Template) error {
	resource := source{attributes: map[string]string{}}
	err := each(logs.bytes, logs.at, 1, func(f field) error { return resource.read(f, 1, t) })
	if err != nil {
		return err
	}
	return each(logs.bytes, logs.at, 2, func(f field) error { return scopeLogs(b, f, resource, t) })
}

func scopeLogs(b *Batch, logs field, resource source, t *Template) error {
	scope := source{attributes: map[string]string{}}
	err := each(logs.bytes, logs.at, 1, func(f field) error { return scope.read(f, 3, t) })
	if err != nil {
		return err
	}
	return each(logs.bytes, logs.at, 2, func(f field) error {
		return logRecord(b, f, t, scope, resource)
	})
}

// read reads a source from its message. The parameter number is the field number of the attributes.
func (s *source) read(f field, number protowire.Number, t *Template) error {
	s.sum = sha256.Sum256(f.bytes)
	return each(f.bytes, f.at, number, func(f field) error {
		return attribute(s.attributes, f, t)
	})
}

func attribute(to map[string]string, f field, t *Template) error {
	key, value, at, err := keyValue(f.bytes, f.at)
	if err != nil || !t.reads(key) {
		return err
	}
	text, err := appendValue(nil, value, at, 0)
	to[key] = named(text)
	return err
}

func logRecord(b *Batch, record field, t *Template, scope, resource source) error {
	var time, observed uint64
	var line []byte
	has, own := false, map[string]string{}
	err := fields(record.bytes, record.at, func(f field) (err error) {
		switch {
		case f.number == 1 && f.kind == protowire.Fixed64Type:
			time = f.value
		case f.number == 11 && f.kind == protowire.Fixed64Type:
			observed = f.value
		case f.isMessage(5):
			has = len(f.bytes) > 0
			line, err = appendValue(line[:0], f.bytes, f.at, 0)
		case f.isMessage(6):
			err = attribute(own, f, t)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !has {
		b.refuse("the record has no body")
		return nil
	}
	err = b.add(t.name(own, scope.attributes, resource.attributes), cmp.Or(time, observed), line,
		resource.sum[:], scope.sum[:], record.bytes)
	if err != nil {
		return &Error{Byte: record.at, Where: where("record", b.Records), What: err.Error()}
	}
	return nil
}

type jsonAttribute struct {
	Key   string   `json:"key"`
	Value anyValue `json:"value"`
}

func jsonAttributes(all []jsonAttribute, t *Template) map[string]string {
	set := map[string]string{}
	for _, a := range all {
		if t.reads(a.Key) {
			set[a.Key] = named(a.Value.append(nil, 0))
		}
	}
	return set
}

// OTLPJSON parses the same request as OTLP, in OTLP's JSON encoding.
func OTLPJSON(body []byte, t *Template) (*Batch, error) {
	b := new(Batch)
	if err := validJSON(body); err != nil {
		return b, err
	}
	return b, members(body, 0, "", func(name string, v value) error {
		if name != "resourceLogs" {
			return nil
		}
		return elements(v, func(v value) error { return jsonResourceLogs(b, v, t) })
	})
}

// group is a resource with its scopes, a scope with its records, or a Loki stream with its entries.
type group struct{ of, list value }

// groupOf reads a group from a JSON object, whose members may be in any order.
func groupOf(v value, of, list string) (g group, err error) {
	err = members(v.text, v.at, v.where, func(name string, v value) error {
		switch name {
		case of:
			g.of = v
		case list:
			g.list = v
		}
		return nil
	})
	return g, err
}

func (g *group) source(t *Template) (source, error) {
	var has struct {
		Attributes []jsonAttribute `json:"attributes"`
	}
	if why := g.of.large(); why != "" {
		return source{}, &Error{g.of.at, g.of.where, why}
	}
	err := g.of.into(&has)
	return source{jsonAttributes(has.Attributes, t), sha256.Sum256(g.of.text)}, err
}

func jsonResourceLogs(b *Batch, v value, t *Template) error {
	g, err := groupOf(v, "resource", "scopeLogs")
	if err != nil {
		return err
	}
	resource, err := g.source(t)
	if err != nil {
		return err
	}
	return elements(g.list, func(v value) error {
		g, err := groupOf(v, "scope", "logRecords")
		if err != nil {
			return err
		}
		scope, err := g.source(t)
		if err != nil {
			return err
		}
		return elements(g.list, func(v value) error { return jsonRecord(b, v, t, scope, resource) })
	})
}

func jsonRecord(b *Batch, v value, t *Template, scope, resource source) error {
	var r struct {
		Time       count           `json:"timeUnixNano"`
		Observed   count           `json:"observedTimeUnixNano"`
		Body       *anyValue       `json:"body"`
		Attributes []jsonAttribute `json:"attributes"`
	}
	if why := v.large(); why != "" {
		b.refuse(why)
		return nil
	}
	if err := v.into(&r); err != nil {
		return err
	}
	if r.Body == nil || r.Body.empty() {
		b.refuse("the record has no body")
		return nil
	}
	name := t.name(jsonAttributes(r.Attributes, t), scope.attributes, resource.attributes)
	err := b.add(name, uint64(cmp.Or(r.Time, r.Observed)), r.Body.append(nil, 0),
		resource.sum[:], scope.sum[:], v.text)
	if err != nil {
		return &Error{Byte: v.at, Where: where("record", b.Records), What: err.Error()}
	}
	return nil
}
