package main

import (
	"github.com/spf13/cobra"
)

func newKeys() *cobra.Command {
	var f dataFlags
	c := subcommand(&cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke the keys of a server",
		Long: `Create, list and revoke the bearer keys of a server. The hashed keys are in the file
keys.json of the data folder; a running server reloads the file within a second. If the
file exists, every request needs a key. With --store, the keys are in a database, for
all servers that have their sessions there and no keys file.`,
		Example: "  lmserve keys add alice\n  lmserve keys list --store " +
			"postgres://lmserve@db/lmserve",
	})
	f.register(c)
	c.PersistentFlags().StringVar(&f.network.store, "store", "",
		"URL of a PostgreSQL database that holds the keys, such as "+
			"postgres://user@host/name\n"+
			"(default: none, the keys are in a file)")
	c.AddCommand(newKeysAdd(&f), newKeysList(&f), newKeysRevoke(&f))
	renamedBelow(c, map[string]string{"file": "keys-file"})
	return c
}
