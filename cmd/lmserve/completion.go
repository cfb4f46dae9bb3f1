package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionScripts write, for each shell, what makes it complete the command line of a program.
var completionScripts = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash":       func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
	"fish":       func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	"zsh":        (*cobra.Command).GenZshCompletion,
}

func newCompletion() *cobra.Command {
	shells := slices.Sorted(maps.Keys(completionScripts))
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that makes a shell complete lmserve's commands and flags",
		Example: `  source <(lmserve completion bash)
  lmserve completion zsh > "${fpath[1]}/_lmserve"
  lmserve completion fish > ~/.config/fish/completions/lmserve.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || completionScripts[args[0]] == nil {
				return fmt.Errorf("found %q, expected one of %s", args, strings.Join(shells, ", "))
			}
			return nil
		},
		PersistentPreRunE: unconfigured,
		RunE: func(c *cobra.Command, args []string) error {
			return completionScripts[args[0]](c.Root(), c.OutOrStdout())
		},
	}
}
