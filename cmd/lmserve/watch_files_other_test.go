//go:build !unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// troubles returns functions that create something other than a regular file at a path. The map's
// keys name the subtests.
func troubles() map[string]func(*testing.T, string) {
	return map[string]func(*testing.T, string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	}
}
