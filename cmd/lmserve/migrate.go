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
		Short: "Create or update the tables of a database for sessions",
		Long: `Create the tables that 'lmserve serve --store' uses, or update those of an older
lmserve, in one transaction for each version. Current tables are not changed. During an
update, no server may use the database.

With --objects, the object store is marked as the database's: an object holds the id of
the database. A store that has a marker keeps it. If the database has states, only a
store that has some of them is marked.`,
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
	c.Flags().StringVar(&store, "store", "",
		"URL of the PostgreSQL database, such as postgres://user@host/name")
	c.Flags().StringVar(&objects, "objects", "",
		"URL of this database's object store, which migrate marks as belonging to it (default: "+
			"none)")
	return c
}
