package changes

import "bytes"

// text is the beginning of a regular key's text, to show when the key falls silent. For a word, the
// text starts at the word before. For a template or a shape, the text is the line after its stamp.
type text struct {
	Tag  uint32
	Text [textBytes]byte // padded with zeros
}

const (
	textsMost = 64
	textBytes = 44
)

// keepText keeps the text of a regular key. It does not replace the text of another regular key.
// Exception: the text of a template or shape replaces that of a word.
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

// textOf returns the text of a key, or nil if none is kept.
func (d *Detector) textOf(e *key) []byte {
	cell := &d.texts[home(e.Tag, textsMost)]
	if cell.Tag != e.Tag {
		return nil
	}
	return bytes.TrimRight(cell.Text[:], "\x00")
}
