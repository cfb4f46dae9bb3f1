package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

// randomModel is a file of a model that is small and random, without meta-learners and statistics.
func randomModel(t *testing.T) string {
	t.Helper()
	small, err := modeltest.Small()
	require.NoError(t, err)
	m, err := model.New("small", small.LM, nil, modeltest.Chunk, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "small.safetensors")
	require.NoError(t, weights.WriteFile(file, m.File(), weights.WriteOptions{}))
	return file
}

// A folder is checked before anybody can connect: one that is damaged ends the server at once, and
// it has listened to nobody.
func TestServeDoesNotListenBeforeItsFolderIsChecked(t *testing.T) {
	file, dir := randomModel(t), t.TempDir()
	_, stop := serving(t, "--model", file, "--data-dir", dir)
	stop()
	db := filepath.Join(dir, "lmserve.db")
	text, err := os.ReadFile(db)
	require.NoError(t, err)
	clear(text) // nothing is left to open
	require.NoError(t, os.WriteFile(db, text, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // should it serve
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"serve", "--model", file, "--listen", "127.0.0.1:0", "--log", "none", "--data-dir", dir}, nil, &stdout, &stderr)
	require.Equal(t, exitFailure, code, stderr.String())
	require.Contains(t, stderr.String(), "lmserve.db")
	require.Empty(t, stdout.String())
}
