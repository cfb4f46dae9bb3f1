package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/pgstore"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

func newMigrate() *cobra.Command {
	var store string
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables of a database for sessions",
		Long: `Make the tables that 'lmserve serve --store' keeps sessions in, or bring those of an older
lmserve up to date, in one transaction for each version. What is up to date is left as it is. No
server may have the database open while its tables are updated.`,
		Example: "  lmserve migrate --store postgres://lmserve@db/lmserve",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if store == "" {
				return usageError{errors.New("--store is not given, expected the URL of a database")}
			}
			before, now, err := pgstore.Migrate(c.Context(), store)
			if errors.Is(err, sessionlog.ErrInvalid) {
				return usageError{fmt.Errorf("--store: %w", err)}
			}
			if err != nil {
				return fmt.Errorf("--store: %w", err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "the tables have version %d (before: %d)\n", now, before)
			return err
		},
	}
	c.Flags().StringVar(&store, "store", "", "URL of the PostgreSQL database, as postgres://user@host/name")
	return c
}
