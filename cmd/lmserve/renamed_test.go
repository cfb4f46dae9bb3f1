package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestRenamedFlagsKeepTheirOldNames(t *testing.T) {
	for _, c := range []struct {
		command  *cobra.Command
		old, new string
		value    string
	}{
		{newServe(), "keys", "keys-file", "some.json"},
		{newServe(), "log", "log-format", "json"},
		{newServe(), "replay-max", "max-replay", "3s"},
		{newEval(), "shuffle", "shuffle-seed", "7"},
		{newScore(), "total", "total-only", "true"},
	} {
		require.NoError(t, c.command.ParseFlags([]string{"--" + c.old + "=" + c.value}), c.old)
		flag := c.command.Flags().Lookup(c.new)
		require.NotNil(t, flag, c.new)
		require.True(t, flag.Changed, c.old)
		require.Equal(t, c.value, flag.Value.String(), c.old)
		help := c.command.UsageString()
		require.Contains(t, help, "--"+c.new+" ")
		require.NotContains(t, help, "--"+c.old+" ")
	}
}

// With the command score, a fraction such as --rate 1/100 sets the threshold, as in older versions.
// A decimal number sets the learning rate.
func TestRateOfScoreTakesFractionAsThreshold(t *testing.T) {
	c := newScore()
	var said strings.Builder
	c.SetErr(&said)
	require.NoError(t, c.ParseFlags([]string{"--rate", "0.5"}))
	require.False(t, c.Flags().Changed("threshold"))
	require.Empty(t, said.String())
	require.NoError(t, c.ParseFlags([]string{"--rate", "1/25"}))
	require.Equal(t, "1/25", c.Flags().Lookup("threshold").Value.String())
	require.True(t, c.Flags().Changed("threshold"))
	require.Equal(t, "0.5", c.Flags().Lookup("rate").Value.String())
	require.Contains(t, said.String(), "--threshold 1/25")
}

func TestEveryFlagHasHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		for _, text := range []string{c.LocalFlags().FlagUsages(),
			c.InheritedFlags().FlagUsages()} {
			require.NotRegexp(t, `(?m)^ *--[a-z-]+( \w+)?\s*$`, text, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}
