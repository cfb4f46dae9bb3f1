package session

import (
	"encoding/json"
	"fmt"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// modelInfo is what Manager.Model tells.
func modelInfo(m *model.Model, defaults stream.Settings) (ModelInfo, error) {
	config, err := json.Marshal(m.LM.Config)
	if err != nil {
		return ModelInfo{}, fmt.Errorf("session: model %s: configuration: %w", m.Name, err)
	}
	kind := tokenizer.KindBytes
	if m.OfWords() {
		kind = tokenizer.KindWords
	}
	return ModelInfo{
		ID:         m.ID(),
		Hash:       m.Hash(),
		Name:       m.Name,
		Parameters: int64(m.LM.Layout.Size),
		Config:     config,
		Tokenizer:  kind,
		Vocab:      m.Tokenizer.Vocab(),
		Start:      m.Tokenizer.Start(),
		Banks:      len(defaults.Adapt.Gammas),
		Defaults:   reported(defaults),
		Card:       m.Card,
	}, nil
}
