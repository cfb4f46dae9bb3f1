package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// renamed lets a command take flags by their names of before as well: each old name stands for the
// new one, which alone is in the help.
func renamed(c *cobra.Command, newByOld map[string]string) {
	c.Flags().SetNormalizeFunc(newName(newByOld))
}

// renamedBelow is renamed for a group of commands and all its flags.
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
