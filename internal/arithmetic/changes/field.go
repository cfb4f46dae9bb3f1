package changes

import "bytes"

// A field is a name before an equals sign (user=7) or a quoted name before a colon ("user": 7),
// outside URLs. A new name is reported at its third occurrence. A field is reported as missing in
// two steps. First the field followed the same field, or began the line, 300 times in a row. Then
// the field was missing there eight times and occurred nowhere else.

const (
	fieldSets   = 23
	fieldSet    = 4
	fieldsMost  = fieldSets * fieldSet
	fieldBytes  = 20 // only the first 20 bytes of a name are kept
	fieldLines  = 2 * warmLines
	fieldTimes  = 3
	fieldSoon   = 500 // maximum lines within which a new name must occur three times to be reported
	fieldKnown  = 300
	fieldMisses = 8
	fieldScore  = 2
	countedMost = 1<<16 - 1
)

type field struct {
	Tag    uint32 // 0 if the cell is free
	Line   uint32
	First  uint32 // number of the first line with the name, modulo 2^32; 0 if not recorded
	Next   uint32 // tag of the field that usually follows; 0 if none does
	Count  uint16
	Streak uint16
	Missed uint16
	_      uint16
	Name   [fieldBytes]byte
}

type fielded struct {
	kind  Kind
	of    event
	first uint32
	name  []byte
	had   uint16
}

// fieldStart is the tag of the beginning of a line, which has no previous field.
const fieldStart = 3

// fieldName returns the bounds of the field name whose last word is w. It returns false if w ends
// no field name.
func fieldName(line []byte, w *word) (from, to int, is bool) {
	to = w.to
	for from = w.from; from > 0; from-- {
		c := line[from-1]
		if !isLetter(c) && !isDigit(c) && c != '.' && c != '-' {
			break
		}
	}
	before := byte(' ')
	if from > 0 {
		before = line[from-1]
	}
	switch {
	case to+1 < len(line) && line[to] == '"' && line[to+1] == ':':
		return from, to, before == '"'
	case to < len(line) && line[to] == '=':
		return from, to, bytes.IndexByte([]byte(" \t,[{("), before) >= 0
	}
	return 0, 0, false
}

// field records a field of a line and returns the field's tag. The parameter behind is the tag of
// the previous field in the line.
func (d *Detector) field(l *line, from, to int, behind uint32, of event) uint32 {
	name := l.text[from:to]
	tag := hashOf(name) | 1
	d.next(l, behind, tag)
	c := d.fieldAt(tag)
	if c.Tag != tag {
		full := c.Tag != 0
		*c = field{Tag: tag}
		copy(c.Name[:], name)
		if !full && l.n > fieldLines {
			c.First = uint32(l.n)
		}
	}
	if c.Line == uint32(l.n) && c.Count > 0 {
		return tag
	}
	c.Line = uint32(l.n)
	c.Count = min(c.Count, countedMost-1) + 1
	if c.Count == fieldTimes && c.First != 0 && uint32(l.n)-c.First < fieldSoon {
		of.from, of.to, of.said = from, to, [2]int{}
		l.field = fielded{kind: NewField, of: of, first: c.First}
	}
	return tag
}

// fieldAt returns the cell of a tag. If the tag has no cell, fieldAt returns a free cell of its set
// or, if none is free, the cell with the lowest count.
func (d *Detector) fieldAt(tag uint32) *field {
	i := home(tag, fieldSets) * fieldSet
	set := d.fields[i : i+fieldSet]
	least := &set[0]
	for i := range set {
		if set[i].Tag == tag || set[i].Tag == 0 {
			return &set[i]
		}
		if set[i].Count < least.Count {
			least = &set[i]
		}
	}
	return least
}

func (d *Detector) fieldOf(tag uint32) *field {
	if c := d.fieldAt(tag); c.Tag == tag {
		return c
	}
	return nil
}

// next records that in this line the field `tag` directly follows the field `behind`. If tag is 0,
// the line has no further field.
func (d *Detector) next(l *line, behind, tag uint32) {
	c := d.fieldOf(behind)
	if c == nil {
		if behind != fieldStart {
			return
		}
		c = d.fieldAt(behind)
		*c = field{Tag: behind, Line: uint32(l.n), Count: countedMost}
	}
	switch {
	case c.Next == tag:
		c.Streak = min(c.Streak, countedMost-1) + 1
		c.Missed = 0
		return
	case c.Next == 0 || c.Streak < fieldKnown:
		c.Next, c.Streak, c.Missed = tag, 1, 0
		return
	}
	gone := d.fieldOf(c.Next)
	if c.Missed++; c.Missed < fieldMisses && gone != nil {
		return
	}
	if gone != nil && uint32(l.n)-gone.Line >= fieldMisses {
		name := gone.Name[:]
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		l.field = fielded{kind: NoField, name: name, had: c.Streak}
	}
	c.Next, c.Streak, c.Missed = tag, 1, 0
}

func (d *Detector) tellField(l *line, each func(*Change)) {
	score := 0.
	if l.field.kind != 0 {
		score = fieldScore
	}
	d.fieldsTold.tell(fieldLimits, l.n, &d.fieldQuiet, score, func() {
		c := d.changeOf(l, l.field.kind, l.field.of)
		c.Of = int64(l.field.had)
		if l.field.kind == NoField {
			c.Text = shown(l.field.name)
		} else {
			c.First = l.n - int64(uint32(l.n)-l.field.first)
			c.Of = c.First - 1
		}
		each(c)
	})
}
