package codec

import "github.com/lmserve/lmserve/internal/session"

// wordText knows how words are spelt where a text of a model of words has come to.
type wordText struct {
	begun  bool
	before int32 // the last token
}

// spelling gives the text of a token in some place of a text.
type spelling func(id int32) []byte

// next takes the next token, and gives how it and others are spelt in its place: that one as it is.
func (t *wordText) next(m *session.ModelInfo, w session.Word) spelling {
	before := t.before
	if !t.begun { // nobody says what is before the text: a word behind a space begins no line
		if before = m.Start; len(w.Text) > 1 && w.Text[0] == ' ' {
			before = w.ID
		}
	}
	t.begun, t.before = true, w.ID
	return func(other int32) []byte {
		if other == w.ID {
			return w.Text
		}
		return m.Spell(nil, before, other)
	}
}
