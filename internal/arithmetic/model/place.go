package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/weights"
)

// Place is where a model is stored: in the binary, or in a file.
type Place struct {
	// argument of Find: the model's name, or the path if several files have that name
	Name string
	File string // path of the file; "" for an embedded model
}

// String returns the file's path, or "embedded" for a model in the binary.
func (p Place) String() string {
	if p.File == "" {
		return "embedded"
	}
	return p.File
}

// Load reads the model from the file or from the binary.
func (p Place) Load() (*Model, error) {
	if p.File != "" {
		return Load(p.File)
	}
	if p.Name == CountsName {
		return Counts(), nil
	}
	f, err := weights.Embedded(p.Name)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f)
	if err != nil {
		return nil, fmt.Errorf("embedded model %s: %w", p.Name, err)
	}
	return m, nil
}

// embeddedNames returns the names of the models that need no file. The first name is the default
// model's.
func embeddedNames() []string { return append(weights.EmbeddedNames(), CountsName) }

// Default returns the embedded default model.
func Default() (*Model, error) { return Place{Name: weights.DefaultName}.Load() }

// Find returns the place of the named model. The name may be an embedded model's, or "" for the
// default model. It may also be a file's path or the name of a model file in folders. The prefix
// NamePrefix is optional.
func Find(name string, folders []string) (Place, error) {
	if name == "" {
		return Place{Name: weights.DefaultName}, nil
	}
	short := strings.TrimPrefix(name, NamePrefix)
	if slices.Contains(embeddedNames(), short) {
		return Place{Name: short}, nil
	}
	info, missing := os.Stat(name)
	if missing == nil && info.IsDir() {
		missing = errors.New("it is a folder")
	}
	if missing == nil || filepath.Base(name) != name {
		return Place{name, name}, nil // if the file is unreadable, Load returns the error
	}
	for _, p := range Places(folders) {
		if p.Name == short {
			return p, nil
		}
	}
	return Place{}, fmt.Errorf("model %s: %w; no model of this name is embedded (%s) or in the "+
		"folders %s",
		name, missing, strings.Join(embeddedNames(), ", "), strings.Join(folders, ", "))
}

// Places returns the places of all models: first the embedded models, beginning with the default,
// then the files in the folders. If several files have the same model name, the first keeps the
// name, and the others are named by their paths. Unreadable folders are skipped.
func Places(folders []string) (all []Place) {
	taken := embeddedNames()
	for _, name := range taken {
		all = append(all, Place{Name: name})
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			p := Place{nameOfFile(e.Name()), filepath.Join(folder, e.Name())}
			if p.Name == "" || e.IsDir() {
				continue
			}
			if slices.Contains(taken, p.Name) {
				p.Name = p.File
			}
			taken, all = append(taken, p.Name), append(all, p)
		}
	}
	return all
}

// nameOfFile returns the model's name for a file name, or "" if the extension is not a model
// file's.
func nameOfFile(file string) string {
	for _, extension := range []string{".safetensors.zst", ".safetensors"} {
		if name, ok := strings.CutSuffix(file, extension); ok {
			return strings.TrimPrefix(name, NamePrefix)
		}
	}
	return ""
}
