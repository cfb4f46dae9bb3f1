package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type configuredFlag struct {
	Flag  string `json:"flag"`
	Value string `json:"value"` // "" means that the command chooses a value
	From  origin `json:"from"`
}

func newConfig() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "config COMMAND...",
		Short: "Show the values of a command's flags, and where they come from",
		Long: `Show the values of a command's flags without a command line, and where each value
comes from: the environment, the configuration file or the default.

` + configurationHelp,
		Example: `  lmserve config serve
  lmserve config sessions export --config lmserve.yaml`,
		Args:              atLeastOne("a command"),
		PersistentPreRunE: unconfigured,
		RunE: func(c *cobra.Command, args []string) error {
			about, err := findCommand(c.Root(), args)
			if err == nil && about.HasSubCommands() {
				err = usagef("found %q, expected one of its commands", about.CommandPath())
			}
			if err != nil {
				return err
			}
			conf, err := readConfiguration(c.Context(), c.Root())
			if err != nil {
				return err
			}
			set, err := conf.apply(about)
			if err != nil {
				return err
			}
			all := configuredFlags(about, set)
			if asJSON {
				return printJSON(c.OutOrStdout(), all)
			}
			return printConfigured(c.OutOrStdout(), conf.file, all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of a table")
	return c
}

func configuredFlags(c *cobra.Command, set origins) (all []configuredFlag) {
	flagsOf(c).VisitAll(func(f *pflag.Flag) {
		if !configurable(c, f) || f.Hidden {
			return
		}
		one := configuredFlag{f.Name, f.Value.String(), fromDefault}
		if from, ok := set[f.Name]; ok {
			one.From = from
		}
		secret := f.Name == "key" || f.Name == "alerts" && one.Value != "[]"
		if secret && one.Value != "" {
			one.Value = "(a secret)"
		}
		if f.Name == "store" || f.Name == "objects" { // a URL may contain a password
			one.Value = plain(one.Value)
		}
		all = append(all, one)
	})
	return all
}

func printConfigured(w io.Writer, file string, all []configuredFlag) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "configuration file: %s\n\n", cmp.Or(file, "none"))
	fmt.Fprintln(tab, "flag\tvalue\tfrom")
	for _, f := range all {
		fmt.Fprintf(tab, "%s\t%s\t%s\n", f.Flag, cmp.Or(f.Value, "-"), f.From)
	}
	return tab.Flush()
}
