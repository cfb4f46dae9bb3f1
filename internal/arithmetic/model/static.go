package model

import (
	"encoding/json"
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// StaticMetadata returns the metadata of a file with a model without meta-learners, for programs
// that have the tensors but no Model. If the tokenizer is nil, the file is not a model yet. card
// may be nil.
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
