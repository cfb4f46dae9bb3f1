package model

import (
	"encoding/json"
	"fmt"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// StaticMetadata returns the metadata for a model file without meta-learners, for programs that
// have tensors but no Model. If tok is nil, the file is incomplete until a tokenizer is added.
// Parameter card may be nil.
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
