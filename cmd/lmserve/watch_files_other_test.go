//go:build !unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// troubles are what may have the path of a file for a moment.
func troubles() map[string]func(*testing.T, string) {
	return map[string]func(*testing.T, string){
		"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	}
}
