//go:build !unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// troubles returns functions, by name, that put something other than a file at the path of a log.
func troubles() map[string]func(*testing.T, string) {
	return map[string]func(*testing.T, string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	}
}
