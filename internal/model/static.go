package model

import (
	"encoding/json"
	"fmt"
)

// StaticMetadata is the metadata of a file of weights that holds a model without meta-learners,
// made by a program that has the tensors and not a Model. The configuration is JSON of a
// txl.Config, the tokenizer a description of package tokenizer, "" for a file whose tokenizer
// nobody knows, which is no model yet. The card may be nil.
func StaticMetadata(
	name string, config json.RawMessage, tokenizer string, chunk int, card json.RawMessage,
) (map[string]string, error) {
	if chunk < 1 {
		return nil, fmt.Errorf("model: chunk is %d, expected at least 1", chunk)
	}
	m := map[string]string{
		keyName: name, keyConfig: string(config), keyAdapt: mustJSON(adapt{Chunk: chunk}),
	}
	if tokenizer != "" {
		m[keyTokenizer] = tokenizer
	}
	if len(card) > 0 {
		m[keyCard] = string(card)
	}
	return m, nil
}
