package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

var called = regexp.MustCompile(`\blmserve ([^|;&>]*)`)

func TestEveryCommandHasExamplesThatCanBeCalled(t *testing.T) {
	everyCommand(newRoot(), func(c *cobra.Command) {
		require.NotEmpty(t, c.Example, c.CommandPath())
		lines := called.FindAllStringSubmatch(c.Example, -1)
		require.NotEmpty(t, lines, "%s: %s", c.CommandPath(), c.Example)
		own := false
		for _, line := range lines {
			words := strings.Fields(strings.ReplaceAll(line[1], "'", ""))
			about, rest, err := newRoot().Find(words)
			require.NoError(t, err, line[0])
			require.True(t, about.HasParent(), "%s: %s", line[0], rest)
			flagsOf(about)
			require.NoError(t, about.ParseFlags(rest), line[0])
			own = own || strings.HasPrefix(about.CommandPath(), c.CommandPath())
		}
		require.True(t, own, "%s: no example is of the command itself", c.CommandPath())
	})
}

// Every default in the help is a valid value of its flag. Special values such as -1 are not shown
// as defaults.
func TestDefaultsInHelpAreTaken(t *testing.T) {
	everyCommand(newRoot(), func(c *cobra.Command) {
		help := c.UsageString()
		for _, no := range []string{"(default -1)", "(default [])", "0: the default", "32Slice"} {
			require.NotContains(t, help, no, c.CommandPath())
		}
		flagsOf(c).VisitAll(func(f *pflag.Flag) {
			_, list := f.Value.(pflag.SliceValue)
			if f.DefValue == "" || f.DefValue == "0" || list {
				return
			}
			require.NoError(t, f.Value.Set(f.DefValue), "%s --%s", c.CommandPath(), f.Name)
		})
	})
}

// Command-line flags have the names, ranges and defaults of the API's settings.
func TestFlagsAreThoseOfTheContract(t *testing.T) {
	complete := newComplete().Flags()
	for _, row := range session.SamplingTable {
		flag := complete.Lookup(row.FlagName())
		require.NotNil(t, flag, row.Name)
		require.Equal(t, row.FlagUsage(), flag.Usage)
		require.Contains(t, flag.Usage, "default: "+row.Default)
	}
	serve := newServe().Flags()
	for flag, limit := range map[string]string{
		"max-score-body":  sizeOf(limits.ScoreBodyBytesMax),
		"max-body-idle":   limits.BodyIdleMax.String(),
		"max-answer-idle": limits.AnswerIdleMax.String(),
		"max-replay":      session.ReplayMaxDefault.String(),
	} {
		require.Equal(t, limit, serve.Lookup(flag).DefValue, flag)
	}
	for _, c := range []*cobra.Command{newServe(), newKeys()} {
		require.NotNil(t, c.PersistentFlags().Lookup("keys-file"), c.Name())
	}
}
