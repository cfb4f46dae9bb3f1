package main

import (
	"maps"
	"os"
	"slices"
)

// tree is files: their content by their path, with slashes.
type tree map[string][]byte

// read adds a file.
func (t tree) read(name, path string) (err error) {
	t[name], err = os.ReadFile(path)
	return err
}

// with is a tree and another.
func (t tree) with(more tree) tree {
	all := maps.Clone(t)
	maps.Copy(all, more)
	return all
}

// paths are in order.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }
