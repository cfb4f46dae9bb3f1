package model

import (
	"encoding/json"

	"github.com/lmserve/lmserve/txl"
)

// CountsName is the name of the model Counts without NamePrefix.
const CountsName = "counts"

const countsChunk = 1024

var countsCard = json.RawMessage(
	`{"description": "no network and no weights: counts of the session's own text"}`)

// Counts returns a model without a network. All bytes are equally likely, so sessions predict only
// by the counts of their companion. The model has the fewest weights that a file can contain, and
// does not use them.
func Counts() *Model {
	lm, err := txl.NewModel(txl.Config{
		NLayer: 1, DModel: 2, NHead: 1, DHead: 1, DInner: 1, Vocab: 256, SegLen: 1,
	})
	if err != nil {
		panic("model: counts: " + err.Error()) // cannot happen: the configuration is a constant
	}
	m, err := New(NamePrefix+CountsName, lm, nil, countsChunk, countsCard)
	if err != nil {
		panic("model: counts: " + err.Error())
	}
	m.Uniform = true
	return m
}
