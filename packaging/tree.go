package main

import (
	"maps"
	"os"
	"slices"
)

// tree maps slash-separated paths to file contents.
type tree map[string][]byte

func (t tree) read(name, path string) (err error) {
	t[name], err = os.ReadFile(path)
	return err
}

func (t tree) with(more tree) tree {
	all := maps.Clone(t)
	maps.Copy(all, more)
	return all
}

func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }
