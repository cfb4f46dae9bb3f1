//go:build !unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// troubles makes what may briefly occupy a file's path.
func troubles() map[string]func(*testing.T, string) {
	return map[string]func(*testing.T, string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	}
}
