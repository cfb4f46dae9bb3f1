package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

func newSessionsDelete(f *dataFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "delete SESSION...",
		Short:   "Delete sessions with all their data, even damaged ones",
		Example: "  lmserve sessions delete news 01a2011e-91d4-7a62-a0e6-4817bfbd99ae",
		Args:    atLeastOne("ids or names"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			store, err := f.openStored(c, folder.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			for _, arg := range args {
				id, err := session.Resolve(c.Context(), store, arg)
				if err != nil {
					return err
				}
				if err := store.Delete(c.Context(), id, 0); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
