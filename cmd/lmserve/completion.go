package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

var completionScripts = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(c *cobra.Command, w io.Writer) error {
		return c.GenBashCompletionV2(w,
			true)
	},
	"fish":       func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	"zsh":        (*cobra.Command).GenZshCompletion,
}

func completeValues(root *cobra.Command) {
	methods := stream.AllMethods()
	valuesOf := map[string]cobra.CompletionFunc{
		"method": cobra.FixedCompletions(
			append(methods, stream.Static+eval.WithCompanion), cobra.ShellCompDirectiveNoFileComp),
		"methods": completeList(methods),
		"model":   completeModels,
	}
	everyCommand(root, func(c *cobra.Command) {
		for name, values := range valuesOf {
			if c.LocalFlags().Lookup(name) != nil {
				if err := c.RegisterFlagCompletionFunc(name, values); err != nil {
					panic(err) // impossible: the flag exists
				}
			}
		}
	})
	for _, name := range []string{"config", "help"} {
		subcommandNamed(root, name).ValidArgsFunction = completeCommands
	}
}

func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, place := range model.Places(modelFolders()) {
		names = append(names, place.Name)
	}
	return names, cobra.ShellCompDirectiveDefault
}

func completeList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var lists []string
		for _, word := range words {
			lists = append(lists, before+word)
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func completeCommands(
	c *cobra.Command, words []string, _ string,
) (names []string, _ cobra.ShellCompDirective) {
	if above, err := findCommand(c.Root(), words); err == nil {
		for _, below := range above.Commands() {
			if below.IsAvailableCommand() {
				names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newCompletion() *cobra.Command {
	shells := slices.Sorted(maps.Keys(completionScripts))
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a shell's completion script for commands and flags",
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
