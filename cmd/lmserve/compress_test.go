package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

func modelFile(t *testing.T, seed uint64) string {
	m, err := modeltest.New(seed)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "small.safetensors")
	require.NoError(t, weights.WriteFile(name, m.File(), weights.WriteOptions{}))
	return name
}

func TestCompressedFilesComeBack(t *testing.T) {
	model, dir := modelFile(t, 7), t.TempDir()
	for name, text := range map[string]string{
		"text": "what goes in comes out\n", "empty": "", "binary": "\xff\x00\n\r\x80\xfe",
		"zeros": string(make([]byte, 300)),
	} {
		file, back := filepath.Join(dir, name), filepath.Join(dir, name+".back")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		must(t, "", "compress", file, "--model", model, "--threads", "1")
		must(t, "", "decompress", file+".lms", "--model", model, "--threads", "2", "--out", back)
		got, err := os.ReadFile(back)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		packed := must(t, text, "compress", "-", "--model", model, "--out", "-", "--method",
			"dynamic-sgd", "--seed", "5")
		require.Equal(t, text, must(t, packed, "decompress", "-", "--model", model, "--out", "-"))
	}
}

func TestCompressProvesTheBitsOfScore(t *testing.T) {
	model, file := modelFile(t, 7), filepath.Join(t.TempDir(), "text")
	text := must(t, "", "help", "serve")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	_, said, code := lmserve("", "compress", file, "--model", model)
	require.Zero(t, code, said)
	sizes := regexp.MustCompile(`, and ([\d,]+) for the model's ([\d.]+) bits per byte`)
	found := sizes.FindStringSubmatch(
		said)
	require.NotNil(t, found, said)
	total := must(t, text, "score", "--model", model, "--total-only", "-")
	bits, err := strconv.ParseFloat(regexp.MustCompile(`(\d+) bits`).FindStringSubmatch(total)[1],
		64)
	require.NoError(t, err)
	each, err := strconv.ParseFloat(found[2], 64)
	require.NoError(t, err)
	require.InEpsilon(t, bits, each*float64(len(text)), 1e-3)
	size, err := strconv.ParseFloat(regexp.MustCompile(`,`).ReplaceAllString(found[1], ""), 64)
	require.NoError(t, err)
	require.InEpsilon(t, bits/8, size, 1e-3)
}

// Existing files are not overwritten, and unreadable input leaves no output file.
func TestCompressRefuses(t *testing.T) {
	model, dir := modelFile(t, 7), t.TempDir()
	file := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	refused := func(want string, args ...string) {
		t.Helper()
		_, said, code := lmserve("", args...)
		require.NotZero(t, code)
		require.Contains(t, said, want)
	}
	must(t, "", "compress", file, "--model", model)
	refused("already exists: name an unused file with --out", "compress", file, "--model", model)
	refused("already exists: name an unused file with "+
		"--out", "decompress", file+".lms", "--model", model)
	refused("--out is missing", "compress", "-")
	refused("does not end in .lms: name the output file with --out", "decompress", file)
	refused("found 0 arguments, expected a file", "compress")
	refused("method", "compress", file, "--out", filepath.Join(dir, "x"), "--method", "magic")
	back := filepath.Join(dir, "back")
	refused("not a text compressed by lmserve", "decompress", file, "--out", back, "--model",
		model)
	refused("but the text was compressed with", "decompress", file+".lms", "--out", back,
		"--model", modelFile(t, 8))
	packed, err := os.ReadFile(file + ".lms")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+".lms", packed[:len(packed)-2], 0o600))
	refused("of the text, expected a text of", "decompress", file+".lms", "--out", back,
		"--model", model)
	require.NoFileExists(t, back)
}

// A compressed file contains the ID of its model, so an embedded model needs no flag. If the model
// was changed by flags, the error of decompress names those flags.
func TestDecompressFindsItsModel(t *testing.T) {
	const text = "a file names its model\n"
	packed := must(t, text, "compress", "-", "--model", "swift", "--out", "-")
	require.Equal(t, text, must(t, packed, "decompress", "-", "--out", "-"))

	packed = must(t, text, "compress", "-", "--model", "swift", "--mem-len", "9", "--out", "-")
	require.Equal(t, text, must(t, packed, "decompress", "-", "--mem-len", "9", "--out", "-"))
	_, said, code := lmserve(packed, "decompress", "-", "--out", "-")
	require.Equal(t, exitFailure, code)
	require.Contains(t, said, "expected the model lmserve-swift-")
	require.Contains(t, said, "--mem-len")
}
