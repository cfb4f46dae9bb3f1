package model

import (
	"encoding/json"
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// StaticMetadata is the metadata of a file of weights that holds a model without meta-learners,
// made by a program that has the tensors and not a Model. A file without a tokenizer, nil, is no
// model yet. The card may be nil.
func StaticMetadata(
	name string, config txl.Config, tok tokenizer.Tokenizer, chunk int, card json.RawMessage,
) (map[string]string, error) {
	if chunk < 1 {
		return nil, fmt.Errorf("model: chunk is %d, expected at least 1", chunk)
	}
	m := map[string]string{
		keyName: name, keyConfig: mustJSON(config), keyAdapt: mustJSON(adapt{Chunk: chunk}),
	}
	if tok != nil {
		m[keyTokenizer] = tok.Describe()
	}
	if len(card) > 0 {
		m[keyCard] = string(card)
	}
	return m, nil
}
