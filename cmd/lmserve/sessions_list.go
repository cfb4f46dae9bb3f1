package main

import (
	"cmp"
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
			return f.withStore(c, func(store storage.Store) error {
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
				return printed(c.OutOrStdout(), all, asJSON, printSessions)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of a table")
	return c
}

func printSessions(w io.Writer, all []storedSession) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "id\tname\towner\tcreated\tlast "+
		"used\tbytes\tbits/byte\tdisk\tmodel\tmethod\thistory\t")
	for _, s := range all {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", s.ID,
			cmp.Or(s.Name, "-"), cmp.Or(s.Owner, "-"), date(s.Created), date(s.LastUsed), s.Offset,
			s.bitsPerByte(), s.DiskBytes, printable(cmp.Or(s.Model, "-")), cmp.Or(s.Method, "-"),
			cmp.Or(s.History, "-"), printable(s.Problem))
	}
	return tab.Flush()
}
