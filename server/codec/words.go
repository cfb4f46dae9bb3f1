package codec

import "github.com/lmserve/lmserve/internal/serving/session"

// wordText cuts the growing text of a model of words into tokens.
type wordText struct {
	named  int    // number of bytes that were cut into tokens
	open   []byte // text not yet cut into tokens
	before int32
}

// spelling returns the text of a token at one position of a text. The spelling may depend on the
// tokens before that position.
type spelling func(id int32) []byte

func (t *wordText) add(text []byte) { t.open = append(t.open, text...) }

// cut removes the next token, of the given size in bytes, from t. It returns the token's text and a
// function that spells any token at this position. The function is valid until the next call of
// cut.
func (t *wordText) cut(m *session.ModelInfo, id int32, size int64) (own []byte, spell spelling) {
	n := min(int(size), len(t.open))
	own, t.open = t.open[:n], t.open[n:]
	before := t.before
	// The token before the first token is unknown. A first token that begins with a space does not
	// begin a line, so its own id takes the place of a preceding word.
	if t.named == 0 {
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
