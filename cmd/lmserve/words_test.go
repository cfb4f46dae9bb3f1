package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/weights"
)

func modelOfWords(t *testing.T) string {
	t.Helper()
	return wordsFileOf(t, modeltest.SmallOfWords)
}

func wordsFileOf(t *testing.T, small func() (*model.Model, error)) string {
	t.Helper()
	m, err := small()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "words.safetensors")
	require.NoError(t, weights.WriteFile(file, m.File(), weights.WriteOptions{}))
	return file
}

// With a model that predicts words, score prints the perplexity and the number of unknown words. An
// unfinished word at the end of the text is not scored.
func TestScoreOfWords(t *testing.T) {
	file := modelOfWords(t)
	text := modeltest.WordText(20) + "the do"
	plain := must(t, text, "score", "--model", file)
	require.Contains(t, plain, "    offset  perplexity  unknown words  bits/byte\n")
	require.Contains(t, plain, "; the last 3 bytes wait for the end of their word\n")
	lines := jsonLines(t, must(t, text, "score", "--model", file, "--json", "--compare"))
	total := lines[len(lines)-1]
	require.Nil(t, total.BPC)
	require.EqualValues(t, 3, *total.PendingBytes, "the space belongs to the word that waits")
	require.EqualValues(t, len(text)-3, total.Bytes)
	require.InEpsilon(t, math.Exp2(total.Bits/float64(*total.Tokens)), *total.Perplexity, 1e-12)
	require.NotEqual(t, *total.Perplexity, *total.BaselinePerplexity)
	unknown, tokens := int64(0), int64(0)
	for _, l := range lines[:len(lines)-1] {
		unknown, tokens = unknown+*l.Unknown, tokens+*l.Tokens
	}
	require.Equal(t, []int64{*total.Unknown, *total.Tokens}, []int64{unknown, tokens})
	require.Regexp(t, `total  perplexity [\d.]+, [\d.]+ bits/byte, \d+ bytes, `,
		must(t, text, "score", "--model", file, "--total-only"))
	byLine := must(t, text, "score", "--model", file, "--lines", "--compare")
	require.Regexp(t, ` bytes, [\d.]+ bits \(static [\d.]+\)\n`, byLine)
	require.NotContains(t, byLine, "per character")
	require.Contains(t, byLine, "xylophone")
}

// If many words are unknown, score prints their share next to the perplexity. A warning says why
// the perplexity is not meaningful.
func TestScoreWarnsOfUnknownWords(t *testing.T) {
	score := []string{"score", "--total-only", "--model", modelOfWords(t)}
	known, errs, code := lmserve(strings.Repeat("the cat sat .\n", 5)+"zebra\n", score...)
	require.Zero(t, code)
	require.Contains(t, known, ", unknown words 1 of 27 tokens (4 %), ")
	require.Empty(t, errs)
	for text, share := range map[string]string{
		"我喜欢学习新的语言\n":              "unknown words 1 of 2 tokens (50 %)",
		"the cat, the dog; sat.\n": "unknown words 3 of 6 tokens (50 %)",
	} {
		out, errs, code := lmserve(text, score...)
		require.Zero(t, code)
		require.Contains(t, out, share)
		require.Contains(t, errs, "lmserve: "+share+": the perplexity says little")
		require.Contains(t, errs, "another language or script")
		require.Contains(t, errs, "punctuation")
	}
}

func TestSessionsOfWords(t *testing.T) {
	file, dir := modelOfWords(t), t.TempDir()
	score := []string{"score", "--model", file, "--data-dir", dir, "--session", "story"}
	must(t, "the cat zebra .\nthe do", score...)
	must(t, "g sat\n", score...)
	var shown storedSession
	show := must(t, "", "sessions", "show", "story", "--data-dir", dir)
	require.NoError(t, json.Unmarshal([]byte(show), &shown))
	require.EqualValues(t, 28, shown.Offset)
	require.EqualValues(t, []int64{9, 1, 0},
		[]int64{shown.Words.Tokens, shown.Words.Unknown, shown.Words.PendingBytes})
	again := must(t, "", "sessions", "replay", "story", "--model", file, "--data-dir", dir)
	require.Contains(t, again, "all bit-identical")
}

// A replay of a session is bit-identical, even if chunks end within a word. The session's model
// splits words at punctuation.
func TestSessionsOfProseReplay(t *testing.T) {
	file, dir := wordsFileOf(t, modeltest.SmallOfProse), t.TempDir()
	text := strings.Repeat(modeltest.Prose, 7)
	score := []string{
		"score", "--model", file, "--data-dir", dir, "--session", "s", "--chunk", "13", "--json",
	}
	total := func(text string) chunkObject {
		lines := jsonLines(t, must(t, text, score...))
		return lines[len(lines)-1]
	}
	first, second := total(text[:900]), total(text[900:])
	require.EqualValues(t, len(text), first.Bytes+second.Bytes+*second.PendingBytes)
	require.Less(t, 4**second.Unknown, *second.Tokens)
	again := must(t, "", "sessions", "replay", "s", "--model", file, "--data-dir", dir)
	require.Contains(t, again, "all bit-identical")
}

// A model that predicts words begins a completion with a new word, locally and over a server.
func TestCompleteOfWords(t *testing.T) {
	file := modelOfWords(t)
	log := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(log, []byte(modeltest.WordText(20)), 0o600))
	same := []string{
		"--after", log, "--prompt", "the cat", "--seed", "3", "--max-tokens", "25", "--logprobs",
		"2",
	}
	near := completed(t, append(same, "--model", file)...)
	require.True(t, strings.HasPrefix(near.Text, " ") || strings.HasPrefix(near.Text, "\n"))
	require.Equal(t, near.Text, strings.Join(near.Tokens, ""))
	url, stop := serving(t, "--model", file)
	defer stop()
	far := completed(t, append(same, "--server", url)...)
	require.Equal(t, near.Text, far.Text)
	require.Equal(t, near.Tokens, far.Tokens)
	table := must(t, "", append([]string{"complete", "--model", file}, same...)...)
	require.Len(t, strings.Split(strings.TrimSpace(table), "\n"), 26)
	require.Contains(t, table, `" `)
}
