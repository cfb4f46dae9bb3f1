package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/keys"
)

func newKeysRevoke(f *dataFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Revoke a key",
		Long: `Revoke a key by its id or name. A running server refuses the key within a second, and
ends its requests in progress. The key's sessions stay, for admins. Its name is free for
a new key.`,
		Example: "  lmserve keys revoke alice",
		Args:    exactly(1, "an id or a name"),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := f.keysAt(c)
			if err != nil {
				return err
			}
			// Reading first refuses an unreadable file before update creates a file or folder.
			if _, err := at.read(); err != nil {
				return err
			}
			var gone keys.Key
			err = at.update(func(list []keys.Key) (_ []keys.Key, err error) {
				list, gone, err = keys.Revoke(list, args[0], time.Now())
				return list, err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "lmserve: revoked key %s (%s) in %s\n", gone.ID, gone.Name,
				at.name)
			return nil
		},
	}
}
