package codec

import "github.com/lmserve/lmserve/internal/serving/session"

// wordText is a text of a model of words, cut into its tokens as it grows.
type wordText struct {
	named  int    // bytes that are cut
	open   []byte // behind these: the beginning of the next token
	before int32  // the last token
}

// spelling gives the text of a token in some place of a text.
type spelling func(id int32) []byte

func (t *wordText) add(text []byte) { t.open = append(t.open, text...) }

// cut takes the next token, of so many bytes: its text, as it is, and how it and others are spelt
// in its place, which is valid until the next call.
func (t *wordText) cut(m *session.ModelInfo, id int32, size int64) (own []byte, spell spelling) {
	n := min(int(size), len(t.open))
	own, t.open = t.open[:n], t.open[n:]
	before := t.before
	if t.named == 0 { // nobody says what is before the text: a word behind a space begins no line
		if before = m.Start; n > 1 && own[0] == ' ' {
			before = id
		}
	}
	t.named, t.before = t.named+n, id
	return own, func(other int32) []byte {
		if other == id {
			return own
		}
		return m.Spell(nil, before, other)
	}
}
