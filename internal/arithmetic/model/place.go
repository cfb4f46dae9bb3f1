package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lmserve/lmserve/weights"
)

// Place is where a model is: in the binary, or in a file.
type Place struct {
	Name string // by which Find finds it: of a file that has no name, its path
	File string // "": the model is embedded
}

// String says the place in words.
func (p Place) String() string {
	if p.File == "" {
		return "embedded"
	}
	return p.File
}

// Load loads the model.
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

// embeddedNames are the names of the models that need no file, the default first.
func embeddedNames() []string { return append(weights.EmbeddedNames(), CountsName) }

// Default is the model that is embedded in the binary.
func Default() (*Model, error) { return Place{Name: weights.DefaultName}.Load() }

// Find finds the model of a name: an embedded one ("" is the default), a file, or a file of that
// name in one of the folders. Names are with or without NamePrefix.
func Find(name string, folders []string) (Place, error) {
	if name == "" {
		return Place{Name: weights.DefaultName}, nil
	}
	short := strings.TrimPrefix(name, NamePrefix)
	if slices.Contains(embeddedNames(), short) {
		return Place{Name: short}, nil
	}
	_, missing := os.Stat(name)
	if missing == nil || filepath.Base(name) != name {
		return Place{name, name}, nil // whose Load says why it cannot be read
	}
	for _, p := range Places(folders) {
		if p.Name == short {
			return p, nil
		}
	}
	return Place{}, fmt.Errorf("model %s: %w, and no model of this name is embedded (%s) or in %s",
		name, missing, strings.Join(embeddedNames(), ", "), strings.Join(folders, ", "))
}

// Places are those of all models that have a name: the embedded ones, the default first, and the
// files in the folders. The first of a name has it, and others have their paths. A folder that
// cannot be read has none.
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

// nameOfFile is the name that a file gives its model; "": it is no model's.
func nameOfFile(file string) string {
	for _, extension := range []string{".safetensors.zst", ".safetensors"} {
		if name, ok := strings.CutSuffix(file, extension); ok {
			return strings.TrimPrefix(name, NamePrefix)
		}
	}
	return ""
}
