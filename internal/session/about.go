package session

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// tokenizerName is what ModelInfo calls the one tokenizer there is.
const tokenizerName = "bytes"

// describe is what Model tells.
func describe(m *model.Model, defaults stream.Settings) (ModelInfo, error) {
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
		Tokenizer:  tokenizerName,
		Banks:      len(defaults.Adapt.Gammas),
		Defaults:   reported(defaults),
		Card:       m.Card,
	}, nil
}

// Model describes the model all sessions run on.
func (mg *Manager) Model() ModelInfo {
	about := mg.about
	about.Card, about.Config = slices.Clone(about.Card), slices.Clone(about.Config)
	about.Defaults = about.Defaults.Clone()
	return about
}
