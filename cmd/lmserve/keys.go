package main

import (
	"fmt"

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

// mustPath returns the path of the keys file, without which the commands on keys cannot work.
func (f *dataFlags) mustPath() (string, error) {
	path, err := f.path()
	if err == nil && path == "" {
		err = usageError{fmt.Errorf("--data-dir is %s, expected a folder, or --keys-file with a keys file", noDataDir)}
	}
	return path, err
}
