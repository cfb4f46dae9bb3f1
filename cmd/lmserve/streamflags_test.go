package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

func TestEverySettingIsAFlag(t *testing.T) {
	for _, c := range []*cobra.Command{newScore(), newComplete()} {
		for _, row := range stream.Table {
			flag := c.Flags().Lookup(row.FlagName())
			if row.NoFlag {
				require.Nil(t, flag, row.Name)
				continue
			}
			require.NotNil(t, flag, row.Name)
			require.Equal(t, row.FlagUsage(), flag.Usage)
			require.Empty(t, flag.DefValue, "the default is the model's")
		}
	}
}

func TestFlagsOfSettingsAreHeldToTheirRanges(t *testing.T) {
	model := smallModel(t)
	for _, c := range []struct{ flag, value, want string }{
		{"--rate", "fast", `found "fast", expected 0 to 1000`},
		{"--chunk", "1025", "--chunk is 1025, expected an integer from 1 to 1024"},
		{"--cache-size", "0", "--cache-size is 0, expected an integer from 1 to 65536"},
		{"--lambda", "1", "--lambda is 1, expected a number from 0 to less than 1"},
		{"--gammas", "0.5,2", "--gammas[1] is 2, expected a number from 0 to 1"},
		{"--gammas", "0.5",
			"--gammas is 1 value, expected 2 values, one for each bank of the model"},
		{"--method", "", `--method is "", expected "sparse-meta", "dynamic-sgd"`},
	} {
		_, stderr, code := lmserve("", "score", "--model", model, c.flag, c.value)
		require.Equal(t, exitUsage, code, c)
		require.Contains(t, stderr, c.want)
	}
}

// Each of these flags changes the scores: the flags of the meta-learner and the flag of the chunk
// size.
func TestFlagsOfTheMetaLearnersReachThem(t *testing.T) {
	text, _ := beginning(t, 300)
	score := []string{"score", "--model", smallModel(t), "--json", "--total"}
	usual := must(t, text, score...)
	for _, flag := range [][2]string{{"--gammas", "0.5,0.9"}, {"--beta1", "0.25"}, {"--beta2", "2"},
		{"--p", "0.25"}, {"--chunk", "8"}} {
		require.NotEqual(t, usual, must(t, text, append(score, flag[:]...)...), flag)
	}
}

func TestFlagOfAnotherMethodIsRefused(t *testing.T) {
	model := smallModel(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--lines", "--rate", "0.01"}, "--rate has no effect with method sparse-meta, " +
			"expected method dynamic-sgd or dynamic-rms"},
		{[]string{"--static", "--p", "0.1"}, "--p has no effect with method static"},
		{[]string{"--method", "static+companion", "--companion=false"},
			"remove --companion=false"},
		{[]string{"--method", "cache", "--decay", "0.1"},
			"--decay has no effect with method cache"},
		{[]string{"--rate", "1/1000"}, "--threshold or --top is given without --lines, expected " +
			"--lines"},
	} {
		_, stderr, code := lmserve("text\n", append([]string{"score", "--model", model},
			c.args...)...)
		require.Equal(t, exitUsage, code, c)
		require.Contains(t, stderr, c.want)
	}
	_, stderr, code := lmserve("", "complete", "--model", model, "--rate", "1/1000")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `found "1/1000", expected 0 to 1000`)
	_, stderr, code = lmserve("", "complete", "--model", model, "--theta", "0.5")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr,
		"--theta has no effect with method sparse-meta, expected method cache")
}
