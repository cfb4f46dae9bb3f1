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
is such a file, every request needs a key.`,
		Example: "  lmserve keys add alice",
	})
	f.register(c)
	c.AddCommand(newKeysAdd(&f), newKeysList(&f), newKeysRevoke(&f))
	renamedBelow(c, map[string]string{"file": "keys-file"})
	return c
}
