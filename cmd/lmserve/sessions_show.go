package main

import (
	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func newSessionsShow(f *dataFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "show SESSION",
		Short:   "Show one session as JSON",
		Example: "  lmserve sessions show news",
		Args:    exactly(1, "an id or a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.withStore(c, func(store storage.Store) error {
				found, err := storedNamed(c.Context(), store, args[0])
				if err != nil {
					return err
				}
				s := describeStored(found)
				s.DiskBytes = charges(store)[s.ID]
				kept, err := store.Snapshots(c.Context(), found.ID)
				if err != nil {
					return err
				}
				for _, k := range kept {
					s.Snapshots = append(s.Snapshots, storedSnapshot{k.Offset, k.Bytes})
				}
				return printJSON(c.OutOrStdout(), s)
			})
		},
	}
}
