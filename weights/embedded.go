package weights

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// DefaultName is the name of the default embedded model.
const DefaultName = "default"

// DefaultHash and DefaultWeights are the hash and the number of weights of the default embedded
// model. With them, callers need not read the model. A test compares both constants with the file.
const (
	DefaultHash    = "1c77806c43f843cb6f68e9d5e1d483d400ac82451b7a89b2a68961a9ddf00116"
	DefaultWeights = 4403968
)

//go:embed default.safetensors.zst
var defaultModel []byte

//go:embed swift.safetensors.zst
var swiftModel []byte

// embedded are the models in the binary, the default first.
var embedded = shelf{{DefaultName, defaultModel}, {"swift", swiftModel}}

// Default reads the default embedded model. Every call returns a separate File.
func Default() (*File, error) { return Embedded(DefaultName) }

// Embedded reads the embedded model with the given name. Every call returns a separate File.
func Embedded(name string) (*File, error) { return embedded.read(name) }

// EmbeddedNames returns the names of the embedded models, the default first.
func EmbeddedNames() []string { return embedded.names() }

type shelf []struct {
	name string
	file []byte
}

func (s shelf) names() (names []string) {
	for _, m := range s {
		names = append(names, m.name)
	}
	return names
}

func (s shelf) read(name string) (*File, error) {
	i := slices.Index(s.names(), name)
	if i < 0 {
		return nil, fmt.Errorf("weights: embedded model: found %q, expected %s", name,
			strings.Join(s.names(), ", "))
	}
	f, err := Read(bytes.NewReader(s[i].file), Limits{})
	if err != nil {
		return nil, inFile(err, "embedded model "+name)
	}
	return f, nil
}
