package weights

import (
	"bytes"
	_ "embed"
)

//go:embed default.safetensors.zst
var defaultModel []byte

// Default reads the model that is embedded in the binary. Every call returns a
// File of its own.
func Default() (*File, error) {
	f, err := Read(bytes.NewReader(defaultModel), Limits{})
	if err != nil {
		return nil, inFile(err, "embedded default model")
	}
	return f, nil
}
