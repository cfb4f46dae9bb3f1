package changes

import "bytes"

// text is the beginning of a regular key's text. It is shown when the key falls silent. For a word,
// the text starts at the previous word. For a template or a shape, the text is the line after its
// time stamp.
type text struct {
	Tag  uint32
	Text [textBytes]byte // padded with zeros
}

const (
	textsMost = 64
	textBytes = 44
)

// keepText stores the text of a regular key. It does not replace the text of another regular key,
// with one exception: a template's or shape's text replaces a word's text.
func (d *Detector) keepText(l *line, e *key, of event) {
	cell := &d.texts[home(e.Tag, textsMost)]
	if cell.Tag == e.Tag {
		return
	}
	for i, set := 0, d.set(cell.Tag); i < setKeys; i++ {
		owner := &set[i]
		if owner.Tag == cell.Tag && owner.even() &&
			(e.Subject < Template || owner.Subject >= Template) {
			return
		}
	}
	*cell = text{Tag: e.Tag}
	shown := l.text[of.before:of.to]
	if end := bytes.IndexAny(shown, "\x00\n"); end >= 0 {
		shown = shown[:end]
	}
	copy(cell.Text[:], shown)
}

// textOf returns the stored text of a key, or nil if none is stored.
func (d *Detector) textOf(e *key) []byte {
	cell := &d.texts[home(e.Tag, textsMost)]
	if cell.Tag != e.Tag {
		return nil
	}
	return bytes.TrimRight(cell.Text[:], "\x00")
}
