package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// usageArgs turns errors about a command's arguments into usage errors, which mention the command's
// help.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil || errors.As(err, &usageError{}) {
			return err
		}
		return usagef("%w (see '%s --help')", err, c.CommandPath())
	}
}

// exactly is like cobra.ExactArgs, but the error names the expected arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("found %s, expected %s", setting.Count(len(args), "argument"), what)
		}
		return nil
	}
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("found no argument, expected %s", what)
		}
		return nil
	}
}

// subcommand turns a command into a command group. Without arguments a group shows its help. An
// argument that is not a command is an error.
func subcommand(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w, did you mean \"%s\"?", err, strings.Join(near, `" or "`))
		}
		return err
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

func everyCommand(c *cobra.Command, visit func(c *cobra.Command)) {
	visit(c)
	for _, below := range c.Commands() {
		everyCommand(below, visit)
	}
}

func findCommand(root *cobra.Command, words []string) (*cobra.Command, error) {
	c, rest, err := root.Find(words)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown command %q for %q", rest[0], c.CommandPath())
	}
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

func subcommandNamed(c *cobra.Command, name string) *cobra.Command {
	for _, below := range c.Commands() {
		if below.Name() == name {
			return below
		}
	}
	return nil
}

// renamed makes a command accept the old names of its flags. The help shows only the new names.
func renamed(c *cobra.Command, newByOld map[string]string) {
	c.Flags().SetNormalizeFunc(newName(newByOld))
}

func renamedBelow(c *cobra.Command, newByOld map[string]string) {
	c.SetGlobalNormalizationFunc(newName(newByOld))
}

func newName(newByOld map[string]string) func(*pflag.FlagSet, string) pflag.NormalizedName {
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if renamed, ok := newByOld[name]; ok {
			name = renamed
		}
		return pflag.NormalizedName(name)
	}
}
