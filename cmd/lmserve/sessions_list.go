package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func newSessionsList(f *dataFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the sessions",
		Example: "  lmserve sessions list --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return f.withStore(c.Context(), func(store storage.Store) error {
				all, charged := []storedSession{}, charges(store)
				err := storage.Each(c.Context(), store, func(found storage.Session) error {
					s := describeStored(found)
					s.DiskBytes = charged[s.ID]
					all = append(all, s)
					return nil
				})
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(c.OutOrStdout(), all)
				}
				return printSessions(c.OutOrStdout(), all)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of a table")
	return c
}

func printSessions(w io.Writer, all []storedSession) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "id\tname\towner\tcreated\tlast used\tbytes\tbits/byte\tdisk\tmodel\tmethod\thistory\t")
	for _, s := range all {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", s.ID,
			orWord(s.Name, s.Name == "", "-"), orWord(s.Owner, s.Owner == "", "-"), date(s.Created), date(s.LastUsed), s.Offset, s.bitsPerByte(), s.DiskBytes,
			printable(orWord(s.Model, s.Model == "", "-")), orWord(s.Method, s.Method == "", "-"), orWord(s.History, s.History == "", "-"), printable(s.Problem))
	}
	return tab.Flush()
}
