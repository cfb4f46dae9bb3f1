package main

import (
	"github.com/spf13/cobra"
)

func newKeys() *cobra.Command {
	var f dataFlags
	c := subcommand(&cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke the keys of a server",
		Long: `Make, list and revoke the bearer keys of a server. They are in the file keys.json
of the data folder, hashed; a running server follows it within a second. Once there
is such a file, every request needs a key. With --store they are in a database, for all
servers that have their sessions there and no keys file of their own.`,
		Example: "  lmserve keys add alice\n  lmserve keys list --store " +
			"postgres://lmserve@db/lmserve",
	})
	f.register(c)
	c.PersistentFlags().StringVar(&f.network.store, "store", "",
		"URL of a PostgreSQL database whose keys are meant, as postgres://user@host/name "+
			"(default: those of a file)")
	c.AddCommand(newKeysAdd(&f), newKeysList(&f), newKeysRevoke(&f))
	renamedBelow(c, map[string]string{"file": "keys-file"})
	return c
}
