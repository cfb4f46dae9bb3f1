package session

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

func modelInfo(m *model.Model, weightsBytes int64) (ModelInfo, error) {
	defaults, err := effective(m, Settings{"chunk": m.Chunk})
	if err != nil {
		return ModelInfo{}, fmt.Errorf("session: model %s: %w", m.Name, err)
	}
	config, err := json.Marshal(m.LM.Config)
	if err != nil {
		return ModelInfo{}, fmt.Errorf("session: model %s: configuration: %w", m.Name, err)
	}
	return ModelInfo{
		ID:         m.ID(),
		Hash:       m.Hash(),
		Name:       m.Name,
		Parameters: int64(m.LM.Layout.Size),
		Config:     config,
		Tokenizer:  kindOf(m.Tokenizer),
		Vocab:      m.Tokenizer.Vocab(),
		Start:      m.Tokenizer.Start(),
		TokenBytes: m.Tokenizer.SpellMax(),
		Banks:      len(defaults.Adapt.Gammas),
		Defaults:   reported(defaults),
		Card:       m.Card,

		WeightsBytes: weightsBytes,
		SessionBytes: stream.StateBytes(m, defaults),
		text:         m.Tokenizer,
	}, nil
}

func (m ModelInfo) clone() ModelInfo {
	m.Card, m.Config, m.Defaults = slices.Clone(m.Card), slices.Clone(m.Config), m.Defaults.Clone()
	return m
}

func kindOf(t tokenizer.Tokenizer) string {
	if _, words := t.(*tokenizer.Words); words {
		return tokenizer.KindWords
	}
	return tokenizer.KindBytes
}

// OfWords reports whether the model's tokens are words.
func (m *ModelInfo) OfWords() bool { return m.Tokenizer == tokenizer.KindWords }

// ModelsNamed returns the models that match a name in a request; see model.WhichNamed. Several
// models may have the same name.
func ModelsNamed(all []ModelInfo, name string) (named []ModelInfo) {
	ids, names := make([]string, len(all)), make([]string, len(all))
	for i := range all {
		ids[i], names[i] = all[i].ID, all[i].Name
	}
	for _, i := range model.WhichNamed(ids, names, name) {
		named = append(named, all[i])
	}
	return named
}

// tokenizer returns the model's tokenizer. For the zero ModelInfo, it returns the tokenizer of
// bytes.
func (m *ModelInfo) tokenizer() tokenizer.Tokenizer {
	if m.text == nil {
		return tokenizer.Bytes{}
	}
	return m.text
}

const tokensAtOnce = 512

// Tokens returns the tokens of a text, as at the beginning of a session. A word at the end of the
// text counts as complete. White space after the last token is ignored.
func (m *ModelInfo) Tokens(text []byte) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		var some tokenizer.Tokens
		var pending tokenizer.Pending
		t, rest := m.tokenizer(), text
		for more := true; more; {
			some.Reset()
			rest = t.Next(&some, &pending, rest, tokensAtOnce)
			if more = len(some.IDs) == tokensAtOnce; !more && pending.Size() > 0 {
				t.End(&some, &pending)
				// drops the token of the line end, which is not in the text
				some.IDs = some.IDs[:len(some.IDs)-1]
			}
			for _, id := range some.IDs {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// CountTokens returns the number of tokens that Tokens returns.
func (m *ModelInfo) CountTokens(text []byte) int64 {
	return int64(tokenizer.Count(m.tokenizer(), text))
}

// Spell appends the text of a token to dst. The text may depend on the token before it, whose id is
// parameter `after`. Spell panics if an id is not in the vocabulary.
func (m *ModelInfo) Spell(dst []byte, after, id int32) []byte {
	return m.tokenizer().Spell(dst, after, id)
}
