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
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// randomModel is a file of a model that is small and random.
func randomModel(t *testing.T) string {
	t.Helper()
	lm, err := txl.NewModel(txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 256, SegLen: 16, MemLen: 20})
	require.NoError(t, err)
	lm.Init(1)
	m, err := model.New("small", lm, nil, 16, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "small.safetensors")
	require.NoError(t, weights.WriteFile(file, m.File(), weights.WriteOptions{}))
	return file
}

// A folder is checked before anybody can connect: one that is damaged ends the server at once, and it has listened to nobody.
func TestServeDoesNotListenBeforeItsFolderIsChecked(t *testing.T) {
	file, dir := randomModel(t), t.TempDir()
	_, stop := serving(t, "--model", file, "--data-dir", dir)
	stop()
	db := filepath.Join(dir, "lmserve.db")
	text, err := os.ReadFile(db)
	require.NoError(t, err)
	text[16+20] ^= 1 // of the first meta page
	require.NoError(t, os.WriteFile(db, text, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // should it serve
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"serve", "--model", file, "--listen", "127.0.0.1:0", "--log", "none", "--data-dir", dir}, nil, &stdout, &stderr)
	require.Equal(t, exitFailure, code, stderr.String())
	require.Contains(t, stderr.String(), "lmserve.db")
	require.Empty(t, stdout.String())
}
