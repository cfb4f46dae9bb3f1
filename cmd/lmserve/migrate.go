package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/storage/postgres"
)

func newMigrate() *cobra.Command {
	var store, objects string
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables of a database for sessions",
		Long: `Make the tables that 'lmserve serve --store' keeps sessions in, or bring those of an older
lmserve up to date, in one transaction for each version. What is up to date is left as it is. No
server may have the database open while its tables are updated.

With --objects the object store gets the marker that says whose it is, if it has none: an object with
the id of the database. A database that has states already marks only a store that has some of them.`,
		Example: "  lmserve migrate --store postgres://lmserve@db/lmserve --objects s3://states",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if store == "" {
				return usagef("--store is not given, expected the URL of a database")
			}
			before, now, err := postgres.Migrate(c.Context(), store)
			if err != nil {
				return storeUnread(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "the tables have version %d (before: %d)\n", now,
				before)
			if err != nil || objects == "" {
				return err
			}
			to := networkFlags{store: store, objects: objects}
			marked, err := to.open(c.Context(), postgres.Options{Adopt: true})
			if err != nil {
				return err
			}
			if err := marked.Close(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s has the marker of the database\n",
				plain(objects))
			return err
		},
	}
	c.Flags().StringVar(&store, "store", "", "URL of the PostgreSQL database, as "+
		"postgres://user@host/name")
	c.Flags().StringVar(&objects, "objects", "",
		"URL of the object store, which gets the marker of the database (default: none)")
	return c
}
