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
	Embedded string // name of the embedded model; "": a file has it
	File     string
}

// String says the place in words.
func (p Place) String() string {
	if p.Embedded != "" {
		return "embedded"
	}
	return p.File
}

// Load loads the model.
func (p Place) Load() (*Model, error) {
	if p.Embedded == "" {
		return Load(p.File)
	}
	f, err := weights.Embedded(p.Embedded)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f)
	if err != nil {
		return nil, fmt.Errorf("embedded model %s: %w", p.Embedded, err)
	}
	return m, nil
}

// extensions are those of files of models that are found by their names.
var extensions = []string{".safetensors.zst", ".safetensors"}

// Find finds the model of a name: an embedded one (with or without NamePrefix; "" is the default), a
// file, or a file of that name in one of the folders.
func Find(name string, folders []string) (Place, error) {
	if name == "" {
		return Place{Embedded: weights.DefaultName}, nil
	}
	if short := strings.TrimPrefix(name, NamePrefix); slices.Contains(weights.EmbeddedNames(), short) {
		return Place{Embedded: short}, nil
	}
	_, missing := os.Stat(name)
	if missing == nil || filepath.Base(name) != name {
		return Place{File: name}, nil // which says itself why it cannot be read
	}
	for _, p := range Places(folders) {
		if p.File != "" && nameOfFile(p.File) == strings.TrimPrefix(name, NamePrefix) {
			return p, nil
		}
	}
	return Place{}, fmt.Errorf("model %s: %w, and no model of this name is embedded (%s) or in %s",
		name, missing, strings.Join(weights.EmbeddedNames(), ", "), strings.Join(folders, ", "))
}

// Places are those of all models that have a name: the embedded ones, the default first, and the
// files in the folders. A folder that cannot be read has none.
func Places(folders []string) (all []Place) {
	for _, name := range weights.EmbeddedNames() {
		all = append(all, Place{Embedded: name})
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if nameOfFile(e.Name()) != "" && !e.IsDir() {
				all = append(all, Place{File: filepath.Join(folder, e.Name())})
			}
		}
	}
	return all
}

// nameOfFile is the name that a file gives its model; "": it is no model's.
func nameOfFile(path string) string {
	for _, extension := range extensions {
		if name, ok := strings.CutSuffix(filepath.Base(path), extension); ok {
			return strings.TrimPrefix(name, NamePrefix)
		}
	}
	return ""
}
